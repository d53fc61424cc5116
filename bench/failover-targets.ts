/** Webhook targets in this process, steady events for each, how long each event waits, and how many come twice. */

import { ulid } from 'ulid'
import { sleep } from '#lib/backoff.ts'
import type { Closeable } from '#lib/resource.ts'
import type { Platform } from '#runtime/start/platform.ts'
import { assignPartition } from '#services/webhooks/targets/assignment.ts'
import { webhooksDeliveries } from '#topics/catalog.ts'
import { eventually } from '../test/support/eventually.ts'
import { openWebhookSink, type WebhookSink } from '../test/support/webhook-sink.ts'

interface TargetLoad extends Closeable {
  /** The targets file, as JSON, which is YAML. */
  targetsFile: string
  /** Sends events while `work` runs. `worst`: the longest that one waited, in seconds; `repeats`: calls too many. */
  during(work: () => Promise<unknown>): Promise<{ worst: number; repeats: number; events: number }>
}

/** Every target owns a partition; every fifth one gets events, so that each join and leave moves some of them. */
const targets = 64
const everyTarget = 5
const everyMs = 200
const answerAfterMs = 20
const deliveredWithinMs = 90_000

interface Busy {
  name: string
  partition: number
  sink: WebhookSink
  sent: { sequence: number; at: number }[]
}

export async function openTargetLoad(platform: Platform): Promise<TargetLoad> {
  const { engines, locations, publisher } = platform
  const { eventLog, relational } = engines
  const busy: Busy[] = []
  const entries: [string, { url: string }][] = []
  for (let n = 0; n < targets; n++) {
    const name = `target-${n}`
    const partition = await assignPartition({ eventLog, relational, locations }, name)
    if (n % everyTarget === 0) {
      const sink = await openWebhookSink(() => ({ afterMs: answerAfterMs }))
      busy.push({ name, partition, sink, sent: [] })
    }
    entries.push([name, { url: busy.at(-1)!.sink.url }])
  }

  async function send({ name, partition, sent }: Busy): Promise<void> {
    const value = deliveryTo(name)
    const messages = [{ key: name, value }]
    const [position] = await publisher.publish(webhooksDeliveries, messages, { partition, timeoutMs: 10_000 })
    sent.push({ sequence: position!.offset, at: performance.now() })
  }
  async function sendUntil(ended: () => boolean): Promise<void> {
    while (!ended()) {
      await Promise.all([...busy.map(send), sleep(everyMs)])
    }
  }
  return {
    targetsFile: JSON.stringify({ targets: Object.fromEntries(entries) }),
    async during(work) {
      for (const one of busy) {
        one.sent.length = 0
        one.sink.forget()
      }
      let over = false
      const sending = sendUntil(() => over)
      await work()
      over = true
      await sending
      const arrived = ({ sink, sent }: Busy) => sink.firstSuccesses().length >= sent.length
      await eventually('all events have arrived', () => busy.every(arrived), deliveredWithinMs)
      // A duplicate arrives soon.
      await sleep(1_000)
      return {
        worst: Math.max(...busy.flatMap(waits)) / 1_000,
        repeats: busy.reduce((sum, { sink, sent }) => sum + sink.received.length - sent.length, 0),
        events: busy.reduce((sum, { sent }) => sum + sent.length, 0),
      }
    },
    async close() {
      await Promise.all(busy.map(({ sink }) => sink.close()))
    },
  }
}

/** Milliseconds that each event of a target waited for its call. */
function waits({ sink, sent }: Busy): number[] {
  const firstAt = new Map<number, number>()
  for (const { sequence, at } of sink.received) if (!firstAt.has(sequence)) firstAt.set(sequence, at)
  return sent.map(({ sequence, at }) => firstAt.get(sequence)! - at)
}

function deliveryTo(target: string) {
  const webhookId = ulid()
  const event = { event: 'task.completed', agent: 'atlas', task_id: webhookId, result: {}, ts: 1 }
  return {
    target,
    event: event.event,
    agent: event.agent,
    task_id: event.task_id,
    idempotency_key: webhookId,
    webhook_id: webhookId,
    body: Buffer.from(JSON.stringify(event)),
    received_at: Date.now(),
    sequence: null,
    replay: false,
  }
}
