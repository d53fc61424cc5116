/** Attempts into webhooks.attempts, many at once and never waited for: the relay's health and metrics are made of them. */

import type { Logger } from 'pino'
import { sleep } from '#lib/backoff.ts'
import { describeError } from '#lib/errors.ts'
import type { Closeable } from '#lib/resource.ts'
import type { Publisher } from '#runtime/messages.ts'
import type { WebhookAttempt } from '#schemas/types.ts'
import { webhooksAttempts } from '#topics/catalog.ts'

export interface Attempts extends Closeable {
  add(attempt: WebhookAttempt): void
}

const gatherMs = 100
const batchMax = 1_000
/** What waits while the log is away; of more the oldest are left out, and counted. */
const waitingMax = 20_000
const pauseMs = 500
const closeMs = 500

export function createAttempts(publisher: Publisher, log: Logger): Attempts {
  let waiting: WebhookAttempt[] = []
  let running: Promise<void> | null = null
  let closing = false
  let left = 0

  async function publish(): Promise<void> {
    const stop = () => closing && Date.now() > closesAtMs
    await sleep(closing ? 0 : gatherMs)
    // What comes while a batch is written is gathered again, unless it fills another one.
    do await publishBatch()
    while ((closing ? waiting.length > 0 : waiting.length >= batchMax) && !stop())
  }
  async function publishBatch(): Promise<void> {
    const batch = waiting.slice(0, batchMax)
    try {
      await publisher.publish(
        webhooksAttempts,
        batch.map((value) => ({ key: value.target, value })),
      )
      waiting = waiting.slice(batch.length)
      if (left > 0) log.warn({ left }, 'webhooks.attempts-left-out: metrics and health lack them')
      left = 0
    } catch (error) {
      log.debug({ err: describeError(error) }, 'attempts could not be published; they are kept')
      await sleep(pauseMs)
    }
  }
  function run(): void {
    running ??= publish().finally(() => {
      running = null
      if (waiting.length > 0 && !closing) run()
    })
  }
  let closesAtMs = 0
  return {
    add(attempt) {
      if (waiting.length >= waitingMax) {
        // Never what is being published now.
        waiting.splice(batchMax, 1)
        left++
      }
      waiting.push(attempt)
      run()
    },
    async close() {
      closing = true
      closesAtMs = Date.now() + closeMs
      await running
      if (waiting.length > 0) await publish()
    },
  }
}
