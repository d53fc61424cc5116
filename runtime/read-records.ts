/** Reads stored records from chosen offsets without disturbing the reader groups: to look into a topic or to copy it. */

import type { EventLog, LogReader, PartitionRange, StoredRecord } from '#engines/event-log/port.ts'
import { sleep } from '#lib/backoff.ts'

const pollMs = 20
/** Who follows a topic learns of added partitions so often. */
const addedEveryMs = 10_000

export interface Misplaced {
  partition: number
  position: number
  /** What the log holds. */
  start: number
  end: number
}

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
  /**
   * What to reject with when the log does not hold a position, at the beginning or because records went before they were
   * read. Default: it goes on at the first record that is kept.
   */
  misplaced?(problem: Misplaced): Error
  signal: AbortSignal
  /** What one fetch of a partition brings at most; as much may wait for each partition. Default 1 MiB. */
  fetchBytesMax?: number
}

/** Resolves with the ranges that were read: what lies in the topic beyond their ends came later. */
export async function readRecords(options: ReadOptions): Promise<PartitionRange[]> {
  const { eventLog, topic, signal, fetchBytesMax } = options
  const ranges = await eventLog.offsets(topic)
  const reading = createReading(options, ranges)
  const reader = await eventLog.read({
    topic,
    from: new Map(ranges.map((range) => [range.partition, options.startOf(range)])),
    listener: reading.listener,
    ...(fetchBytesMax === undefined ? {} : { fetchBytesMax }),
  })
  reading.opened(reader)
  try {
    while (!signal.aborted && !reading.isDone()) await sleep(pollMs, signal)
    if (!reading.fault()) await options.caughtUp?.()
    if (options.follow) await followUntil(options, ranges, reader, () => reading.fault() !== undefined)
  } finally {
    await reader.close()
  }
  const fault = reading.fault()
  if (fault) throw fault.error
  return ranges
}

/** A partition that is added is read whole. */
async function followUntil(
  { eventLog, topic, signal }: ReadOptions,
  ranges: readonly PartitionRange[],
  reader: LogReader,
  isOver: () => boolean,
): Promise<void> {
  const known = new Set(ranges.map(({ partition }) => partition))
  let lookAt = performance.now() + addedEveryMs
  while (!signal.aborted && !isOver()) {
    await sleep(pollMs * 5, signal)
    if (performance.now() < lookAt) continue
    // While the log is away nothing is added.
    for (const { partition, start } of await eventLog.offsets(topic).catch(() => [])) {
      if (!known.has(partition)) reader.seek(partition, start)
      known.add(partition)
    }
    lookAt = performance.now() + addedEveryMs
  }
}

function createReading(options: ReadOptions, ranges: readonly PartitionRange[]) {
  const queues = new Map<number, Promise<void>>()
  let reader: LogReader | undefined
  let busy = 0
  let fault: { error: unknown } | undefined

  async function deliver(records: StoredRecord[]): Promise<void> {
    try {
      if (!fault) await options.records(records)
    } catch (error) {
      fault ??= { error }
    } finally {
      busy -= 1
    }
  }

  return {
    fault: () => fault,
    opened(opened: LogReader): void {
      reader = opened
    },
    isDone(): boolean {
      if (fault) return true
      const next = reader?.positions()
      return busy === 0 && ranges.every(({ partition, end }) => (next?.get(partition) ?? -1) >= end)
    },
    listener: {
      records(partition: number, records: StoredRecord[]) {
        busy += 1
        reader?.pause(partition)
        const queue = (queues.get(partition) ?? Promise.resolve())
          .then(() => deliver(records))
          .then(() => reader?.resume(partition))
        queues.set(partition, queue)
      },
      misplaced(partition: number, problem: Omit<Misplaced, 'partition'>) {
        if (options.misplaced) fault ??= { error: options.misplaced({ partition, ...problem }) }
        // Not at once: at its beginning the reader may not be known yet.
        else setImmediate(() => reader?.seek(partition, problem.start))
      },
    },
  }
}
