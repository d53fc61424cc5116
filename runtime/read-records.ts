/** Reads stored records from chosen offsets, beside the groups that work on them: for looking at a topic. */

import { randomBytes } from 'node:crypto'
import type { EventLog, StoredRecord } from '#engines/event-log/port.ts'
import { sleep } from '#lib/backoff.ts'

/** Where compaction took the last records of a partition, its end is never read: quiet for this long counts as read. */
const quietMs = 3_000
const pollMs = 20

export interface ReadOptions {
  eventLog: EventLog
  /** Physical name. */
  topic: string
  /** How many of the newest records of each partition; null reads from the start. */
  last: number | null
  /** Goes on with what is appended until the signal aborts; else ends with what is there now. */
  follow: boolean
  /** Of one partition, in order. */
  records(records: StoredRecord[]): void
  /** Called once, when all that was there at the beginning is read. */
  caughtUp?(): void
  signal: AbortSignal
}

export async function readRecords(options: ReadOptions): Promise<void> {
  const { eventLog, topic, last, signal } = options
  const ranges = await eventLog.offsets(topic)
  const starts = new Map(
    ranges.map(({ partition, start, end }) => [
      partition,
      last === null ? start : Math.max(start, end - last),
    ]),
  )
  const missing = new Map(
    ranges
      .filter(({ partition, end }) => (starts.get(partition) ?? 0) < end)
      .map(({ partition, end }) => [partition, end]),
  )
  let heardAt = Date.now()
  const group = `flotilla-read-${randomBytes(6).toString('hex')}`
  const consumer = await eventLog.consume({
    group,
    topic,
    listener: {
      async assigned(gained) {
        heardAt = Date.now()
        return new Map(gained.map(({ partition, start }) => [partition, starts.get(partition) ?? start]))
      },
      lost: () => {},
      records(partition, records) {
        heardAt = Date.now()
        const end = missing.get(partition)
        if (end !== undefined && (records.at(-1)?.offset ?? -1) >= end - 1) missing.delete(partition)
        options.records(records)
      },
      misplaced: (partition, { start }) => consumer.seek(partition, start),
    },
  })
  try {
    const joined = () => consumer.assignment().length > 0
    while (!signal.aborted && missing.size > 0 && !(joined() && Date.now() - heardAt > quietMs)) {
      await sleep(pollMs, signal)
    }
    options.caughtUp?.()
    while (options.follow && !signal.aborted) await sleep(1_000, signal)
  } finally {
    await consumer.close()
    // It never committed; some engines keep its name for a while all the same.
    await eventLog.deleteGroup(group).catch(() => {})
  }
}
