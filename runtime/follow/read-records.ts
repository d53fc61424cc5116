/** Reads what a topic holds now, from chosen offsets, without disturbing the reader groups. */

import type { Log, LogReader, PartitionRange, StoredRecord } from '#engines/event-log/port.ts'
import { sleep } from '#lib/backoff.ts'
import { spendTurn } from '#lib/loop-turn.ts'

const pollMs = 20
/** Records are given in pieces of so much: in between the event loop may turn. */
const pieceBytes = 64 * 1024
const pieceRecords = 200

export interface ReadOptions {
  eventLog: Log
  /** Physical name. */
  topic: string
  /** The offset to begin at; where the log does not hold it any more, the first that is kept. */
  startOf(range: PartitionRange): number
  /** Of one partition, in order. The partition's next records come when it resolves; a rejection ends the reading. */
  records(records: StoredRecord[]): void | Promise<void>
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
  } finally {
    await reader.close()
  }
  const fault = reading.fault()
  if (fault) throw fault.error
  return ranges
}

function createReading(options: ReadOptions, ranges: readonly PartitionRange[]) {
  const queues = new Map<number, Promise<void>>()
  let reader: LogReader | undefined
  let busy = 0
  let fault: { error: unknown } | undefined

  async function deliver(records: StoredRecord[]): Promise<void> {
    try {
      for (const piece of piecesOf(records)) {
        if (fault || options.signal.aborted) return
        await options.records(piece.records)
        await spendTurn(piece.bytes)
      }
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
      misplaced(partition: number, { start }: { start: number }) {
        // Not at once: at its beginning the reader may not be known yet.
        setImmediate(() => reader?.seek(partition, start))
      },
    },
  }
}

function* piecesOf(records: StoredRecord[]): Generator<{ records: StoredRecord[]; bytes: number }> {
  let from = 0
  let bytes = 0
  for (const [index, record] of records.entries()) {
    bytes += recordBytes(record)
    const isLast = index === records.length - 1
    if (!isLast && bytes < pieceBytes && index - from < pieceRecords - 1) continue
    yield { records: records.slice(from, index + 1), bytes }
    from = index + 1
    bytes = 0
  }
}

/** What a record's key and value weigh. */
export function recordBytes({ bytes, key, value }: StoredRecord): number {
  return bytes ?? (key?.length ?? 0) + (value?.length ?? 0)
}
