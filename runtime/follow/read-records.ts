/** Reads what a topic holds now, from chosen offsets: all of it, one range, or one record each; joins no reader group. */

import type { Log, PartitionRange, StoredRecord, Tail } from '#engines/event-log/port.ts'
import { sleep } from '#lib/backoff.ts'
import { AppError } from '#lib/errors.ts'
import { spendTurn } from '#lib/giving-way.ts'
import { recordBytes } from './follow-topic.ts'

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
  /** Takes records of one partition, in order. Its next records follow once this resolves; a rejection ends the reading. */
  records(records: StoredRecord[]): void | Promise<void>
  signal: AbortSignal
  /** What one fetch of a partition brings at most; as much may wait for each partition. Default 1 MiB. */
  fetchBytesMax?: number
}

/** Resolves with the ranges that were read: what lies in the topic beyond their ends came later. */
export async function readRecords(options: ReadOptions): Promise<PartitionRange[]> {
  const { eventLog, topic, signal, fetchBytesMax } = options
  const ranges = await eventLog.offsets(topic)
  const from = new Map(ranges.map((range) => [range.partition, options.startOf(range)]))
  const wanted = ranges.filter(({ partition, end }) => from.get(partition)! < end)
  if (wanted.length === 0) return ranges
  let fault: { error: unknown } | undefined
  async function take(records: StoredRecord[]): Promise<void> {
    try {
      for (const piece of piecesOf(records)) {
        if (fault || signal.aborted) return
        await options.records(piece.records)
        await spendTurn(piece.bytes)
      }
    } catch (error) {
      fault ??= { error }
    }
  }
  const tail = await eventLog.tail({
    topic,
    from: ({ partition, end }) => from.get(partition) ?? end,
    records: (_, records) => take(records),
    ...(fetchBytesMax === undefined ? {} : { fetchBytesMax }),
  })
  function isDone(): boolean {
    const next = tail.positions()
    return wanted.every(({ partition, end }) => (next.get(partition) ?? -1) >= end)
  }
  try {
    while (!signal.aborted && !fault && !isDone()) await sleep(pollMs, signal)
  } finally {
    await tail.close()
  }
  if (fault) throw fault.error
  return ranges
}

interface RecordRange {
  topic: string
  partition: number
  /** First offset to read. */
  from: number
  /** Behind the last offset to read; no more than the partition's end. */
  to: number
  timeoutMs: number
}

/**
 * Calls `visit` with each record in order; reads that partition alone. Throws AppError `log_unavailable` when it takes longer
 * than `timeoutMs`, `not_found` when the log does not hold `from` any more.
 */
export async function readRange(
  eventLog: Log,
  { topic, partition, from, to, timeoutMs }: RecordRange,
  visit: (record: StoredRecord) => void,
): Promise<void> {
  if (from >= to) return
  const end = Promise.withResolvers<void>()
  const late = setTimeout(() => {
    end.reject(
      new AppError('log_unavailable', 'Reading the log takes too long; try again.', { retryAfter: 5 }),
    )
  }, timeoutMs)
  let tail: Tail | undefined
  try {
    tail = await eventLog.tail({
      topic,
      partitions: [partition],
      from: () => from,
      records(_, records) {
        for (const record of records) if (record.offset < to && !record.hidden) visit(record)
        // The newest record is never compacted away, and hidden ones come as well: the end is always seen.
        if (records.at(-1)!.offset >= to - 1) end.resolve()
      },
      misplaced: () => end.reject(new AppError('not_found', 'The position is not in the log any more.')),
    })
    await end.promise
  } finally {
    clearTimeout(late)
    await tail?.close()
  }
}

/** The record at an offset; null where the log does not hold it. Throws AppError `log_unavailable`. */
export async function readOne(
  eventLog: Log,
  { offset, ...place }: Omit<RecordRange, 'from' | 'to'> & { offset: number },
): Promise<StoredRecord | null> {
  const range = (await eventLog.offsets(place.topic)).find(({ partition }) => partition === place.partition)
  if (!range || offset < range.start || offset >= range.end) return null
  let found: StoredRecord | null = null
  await readRange(eventLog, { ...place, from: offset, to: offset + 1 }, (record) => {
    found = record
  })
  return found
}

interface ReadFirstOptions {
  eventLog: Log
  /** Physical name. */
  topic: string
  /** Where to look, by partition: below the partition's end. */
  positions: ReadonlyMap<number, number>
  signal: AbortSignal
}

/** Little is wanted of each fetch, but a record always comes as a whole. */
const firstBytesMax = 16_384

/** The first record at or behind each position; a partition where nothing is left there is missing. */
export async function readFirst(options: ReadFirstOptions): Promise<Map<number, StoredRecord>> {
  const { eventLog, topic, positions, signal } = options
  const missing = new Set(positions.keys())
  const found = new Map<number, StoredRecord>()
  const complete = new AbortController()
  await readRecords({
    eventLog,
    topic,
    startOf: ({ partition, end }) => positions.get(partition) ?? end,
    fetchBytesMax: firstBytesMax,
    signal: AbortSignal.any([signal, complete.signal]),
    records(records) {
      const first = records.find(({ hidden }) => !hidden)
      if (!first || found.has(first.partition)) return
      found.set(first.partition, first)
      missing.delete(first.partition)
      // The rest of the backlog is not needed.
      if (missing.size === 0) complete.abort()
    },
  })
  return found
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
