/** Reads stored records from chosen offsets without disturbing the reader groups: to look into a topic or to copy it. */

import { randomBytes } from 'node:crypto'
import type { EventLog, GroupConsumer, PartitionRange, StoredRecord } from '#engines/event-log/port.ts'
import { sleep } from '#lib/backoff.ts'

/** Compaction may have removed the last records of a partition, so its end is never reached: quiet this long counts as read. */
const quietMs = 3_000
const pollMs = 20

export interface ReadOptions {
  eventLog: EventLog
  /** Physical name. */
  topic: string
  /** The offset to begin at. */
  startOf(range: PartitionRange): number
  /** Goes on with what is appended until the signal aborts; else ends with what is there now. */
  follow?: boolean
  /** Of one partition, in order. The partition's next records come when it resolves; a rejection ends the reading. */
  records(records: StoredRecord[]): void | Promise<void>
  /** Called once, when all that was there at the beginning is read. */
  caughtUp?(): void | Promise<void>
  signal: AbortSignal
  /** What one fetch of a partition brings at most; as much may wait for each partition. Default 1 MiB. */
  fetchBytesMax?: number
}

/** Resolves with the ranges that were read: what lies in the topic beyond their ends came later. */
export async function readRecords(options: ReadOptions): Promise<PartitionRange[]> {
  const { eventLog, topic, signal, fetchBytesMax } = options
  const ranges = await eventLog.offsets(topic)
  const reading = createReading(options, ranges)
  const group = `flotilla-tail-${randomBytes(6).toString('hex')}`
  const joined = Promise.withResolvers<GroupConsumer>()
  const consumer = await eventLog.consume({
    group,
    topic,
    listener: reading.listener(joined.promise),
    ...(fetchBytesMax === undefined ? {} : { fetchBytesMax }),
  })
  joined.resolve(consumer)
  try {
    while (!signal.aborted && !reading.isDone(consumer)) await sleep(pollMs, signal)
    await options.caughtUp?.()
    while (options.follow && !signal.aborted && !reading.fault()) await sleep(pollMs * 5, signal)
  } finally {
    await consumer.close()
    // It never committed; some engines keep its name for a while all the same.
    await eventLog.deleteGroup(group).catch(() => {})
  }
  const fault = reading.fault()
  if (fault) throw fault.error
  return ranges
}

function createReading(options: ReadOptions, ranges: PartitionRange[]) {
  const starts = new Map(ranges.map((range) => [range.partition, options.startOf(range)]))
  const missing = new Map(
    ranges
      .filter(({ partition, end }) => (starts.get(partition) ?? 0) < end)
      .map(({ partition, end }) => [partition, end]),
  )
  let receivedAt = Date.now()
  let busy = 0
  let fault: { error: unknown } | undefined

  async function deliver(partition: number, records: StoredRecord[]): Promise<void> {
    busy += 1
    try {
      await options.records(records)
      const end = missing.get(partition)
      if (end !== undefined && (records.at(-1)?.offset ?? -1) >= end - 1) missing.delete(partition)
    } catch (error) {
      fault ??= { error }
    } finally {
      busy -= 1
      receivedAt = Date.now()
    }
  }

  return {
    fault: () => fault,
    isDone(consumer: GroupConsumer): boolean {
      if (fault || missing.size === 0) return true
      return busy === 0 && consumer.assignment().length > 0 && Date.now() - receivedAt > quietMs
    },
    /** Waits for the consumer at its first assignment: no record comes before that. */
    listener(joined: Promise<GroupConsumer>) {
      let consumer: GroupConsumer | undefined
      const queues = new Map<number, Promise<void>>()
      return {
        async assigned(gained: PartitionRange[]) {
          consumer = await joined
          receivedAt = Date.now()
          return new Map(gained.map(({ partition, start }) => [partition, starts.get(partition) ?? start]))
        },
        lost: () => {},
        records(partition: number, records: StoredRecord[]) {
          consumer?.pause(partition)
          const queue = (queues.get(partition) ?? Promise.resolve())
            .then(() => deliver(partition, records))
            .then(() => consumer?.resume(partition))
          queues.set(partition, queue)
        },
        misplaced: (partition: number, { start }: { start: number }) => consumer?.seek(partition, start),
      }
    },
  }
}
