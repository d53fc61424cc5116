/** Runs a batch handler as the consumer runtime would, halving what it refuses, and says how each message ended. */

import { type BatchOutcome, done, park } from '#lib/outcome.ts'
import { type BatchGroup, decideBatch } from '#runtime/consume/batch-outcomes.ts'
import type { Message } from '#runtime/publish/messages.ts'

const limits = { retriesMax: 0, backoff: { baseMs: 1, maxMs: 1 } }

/** A message ends as done or parked; after `unavailable`, the remaining messages have that outcome. */
export async function handleBatch<V>(
  handle: (messages: Message<V>[]) => Promise<BatchOutcome[]>,
  messages: Message<V>[],
  onParked: (message: Message<V>) => void = () => {},
): Promise<BatchOutcome[]> {
  const records = messages.map((message) => ({ message, key: message.key, attempts: 0 }))
  const ends = new Map<Message<V>, BatchOutcome>()
  const groups: BatchGroup<(typeof records)[number]>[] = [{ records, waitMs: 0 }]
  for (let group = groups.pop(); group; group = groups.pop()) {
    const outcomes = await handle(group.records.map(({ message }) => message))
    const { settled, parked, again, unavailable } = decideBatch(group.records, outcomes, limits)
    for (const { message } of settled) ends.set(message, done)
    for (const { record, reason } of parked) {
      ends.set(record.message, park(reason))
      onParked(record.message)
    }
    if (unavailable) {
      const outcome = { kind: 'unavailable', ...unavailable } as const
      for (const { message } of [...again, ...groups].flatMap((one) => one.records))
        ends.set(message, outcome)
      break
    }
    groups.push(...again.toReversed())
  }
  return messages.map((message) => ends.get(message)!)
}
