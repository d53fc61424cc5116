/** Makes the records of webhooks.attempts, and publishes them in batches that no call waits for. */

import type { Logger } from 'pino'
import { sleep } from '#lib/backoff.ts'
import { describeError } from '#lib/errors.ts'
import type { Publisher } from '#runtime/publish/messages.ts'
import type { WebhookAttempt } from '#schemas/types.ts'
import { webhooksAttempts } from '#topics/catalog.ts'
import { type Head, type TargetState, wallTimeOf } from '../deliver/target-state.ts'
import type { CallResult } from '../deliver/verdict.ts'

export type Attempts = ReturnType<typeof createAttempts>

const gatherMs = 100
const batchMax = 2_000
/** Encoding a whole batch at once would delay every call: this many are encoded while calls run. */
const encodedTogether = 32
/** Attempts kept while the log is away, besides two batches; beyond that the oldest are left out, and counted. */
const waitingMax = 20_000
const pauseMs = 500
const closeMs = 500

export function createAttempts(publisher: Publisher, log: Logger) {
  const open = () => publisher.batch(webhooksAttempts)
  const waiting: WebhookAttempt[] = []
  let filling = open()
  /** On its way, or to be sent again. */
  let sending: ReturnType<typeof open> | null = null
  let encoding: Promise<void> | null = null
  let encodesSoon = false
  let running: Promise<void> | null = null
  let closing = false
  let closesAtMs = 0
  let left = 0

  const some = () => waiting.length > 0 || filling.size > 0 || sending !== null
  const full = () => filling.size >= batchMax

  /** Moves pending attempts into the batch, as far as there is room. */
  function encode(): Promise<void> {
    encoding ??= encodeWaiting().finally(() => {
      encoding = null
    })
    return encoding
  }
  async function encodeWaiting(): Promise<void> {
    const taken = waiting.splice(0, batchMax - filling.size)
    let added = 0
    try {
      for (const value of taken) {
        const late = filling.add({ key: value.target, value })
        if (late) await late
        added++
      }
    } finally {
      if (added < taken.length) waiting.unshift(...taken.slice(added))
    }
  }
  /** Not in this turn: the calls that follow upon these attempts leave first. */
  function encodeSoon(): void {
    if (encodesSoon) return
    encodesSoon = true
    setImmediate(() =>
      setImmediate(() => {
        encodesSoon = false
        encode().catch(() => {
          // Whoever publishes meets the same fault, and pauses.
        })
      }),
    )
  }

  async function publish(): Promise<void> {
    const late = () => closing && performance.now() > closesAtMs
    await sleep(closing ? 0 : gatherMs)
    // Attempts during a write are gathered again, unless they fill another batch.
    do await publishBatch()
    while ((closing ? some() : full()) && !late())
  }
  async function publishBatch(): Promise<void> {
    try {
      await encode()
      if (sending === null) {
        sending = filling
        filling = open()
      }
      await sending.publish()
      sending = null
      if (left > 0) log.warn({ left, hint: 'metrics and health lack them' }, 'webhooks.attempts-left-out')
      left = 0
    } catch (error) {
      log.debug({ err: describeError(error) }, 'attempts could not be published; they are kept')
      await sleep(pauseMs)
    }
  }
  function run(): void {
    running ??= publish().finally(() => {
      running = null
      if (some() && !closing) run()
    })
  }
  return {
    add(attempt: WebhookAttempt): void {
      if (waiting.length >= waitingMax) {
        waiting.shift()
        left++
      }
      waiting.push(attempt)
      if (waiting.length >= encodedTogether && !full()) encodeSoon()
      run()
    },
    async close(): Promise<void> {
      closing = true
      closesAtMs = performance.now() + closeMs
      await running
      if (some()) await publish()
    },
  }
}

/** A delivery that was tried. */
interface Tried {
  state: TargetState
  head: Head
  context: { attempt: number }
  delivery: { received_at: number }
}

type Kind = 'success' | 'retry' | 'dead_letter'

/** Publishes the attempt, and logs it at the level `debug`. `result`: null when no call was made. */
export function reportAttempt(
  { attempts, log }: { attempts: Attempts; log: Logger },
  tried: Tried,
  kind: Kind,
  result: CallResult | null,
): void {
  const record = attemptRecord(tried, kind, result)
  attempts.add(record)
  if (!log.isLevelEnabled('debug')) return
  const { target, sequence, attempt, status, fault, took_ms: tookMs } = record
  log.debug({ target, kind, sequence, attempt, status, fault, tookMs }, 'webhooks.attempt')
}

function attemptRecord(
  { state, head, context, delivery }: Tried,
  kind: Kind,
  result: CallResult | null,
): WebhookAttempt {
  return {
    target: state.target.name,
    kind,
    sequence: head.sequence,
    attempt: result === null ? context.attempt - 1 : context.attempt,
    status: result?.status ?? null,
    fault: result?.fault ?? null,
    took_ms: result?.tookMs ?? null,
    breaker: state.breaker,
    lag: null,
    head_received_at: delivery.received_at,
    next_attempt_at: kind === 'retry' ? wallTimeOf(head.dueAtMs) : null,
    occurred_at: Date.now(),
  }
}

export function stateRecord(state: TargetState, lag: number | null): WebhookAttempt {
  const head = state.firstHead
  return {
    target: state.target.name,
    kind: 'state',
    sequence: head?.sequence ?? null,
    attempt: head?.attempts ?? null,
    status: null,
    fault: null,
    took_ms: null,
    breaker: state.breaker,
    lag,
    head_received_at: head?.receivedAtMs ?? null,
    next_attempt_at: state.nextAttemptAtMs,
    occurred_at: Date.now(),
  }
}
