/**
 * A live look into a topic for people. What lay in the log when it began comes whole, at most 200 records a second; of
 * what comes later as many are shown as fit, and each says for how many it is there. A reader that is behind misses
 * records, never holds the others up, and is given the number.
 */

import type { PartitionRange, StoredRecord } from '#engines/event-log/port.ts'
import { sleep } from '#lib/backoff.ts'
import { followRecords } from '#runtime/follow/follow-topic.ts'
import { findTopic } from '../find-topic.ts'
import type { OperatedPlatform } from '../operation.ts'
import { createPace } from './pace.ts'
import { positionText, readPosition, type TopicPosition } from './position.ts'
import { mayBeWanted, type RecordFilter, type StreamedRecord, showWanted } from './shown.ts'

export const shownPerSecond = 200
/** As much of each partition may wait in memory. */
const fetchBytesMax = 32 * 1024
/** What was left out is said after this long, when no record comes that could say it. */
const sayAfterMs = 1_000

/** Where a stream without an id begins: an offset of a partition, or as many of the newest of each. */
export type StreamStart = 'beginning' | 'end' | { offset: number } | { newest: number }

export interface TopicStreamArgs {
  topic: string
  filter: RecordFilter
  from: StreamStart
  /** Id of the last event that the reader had; `from` then counts only where the stream cannot resume there. */
  lastEventId?: string
}

/** Where the events go. */
export interface StreamReader {
  hasRoom(): boolean
  /** Resolves when it has room, or is gone. */
  room(): Promise<void>
  /** `of`: it is shown for so many. */
  record(id: string, record: StreamedRecord & { of: number }): void
  /** So many were left out: the reader was behind (`slow`), or they are gone from the log (`expired`). */
  skipped(id: string, skipped: { records: number; reason: 'slow' | 'rate' | 'expired' }): void
  /** The log was replaced since the last event: what came between is not known. */
  reset(id: string): void
  /** Nothing is shown, but the stream has come as far as this. */
  passed(id: string): void
}

/** Resolves when the signal aborts. Throws AppError `not_found`, `validation_failed`, `log_unavailable`. */
export async function streamTopic(
  platform: Pick<OperatedPlatform, 'engines' | 'codec' | 'publisher' | 'log'>,
  args: TopicStreamArgs,
  reader: StreamReader,
  signal: AbortSignal,
): Promise<void> {
  const topic = findTopic(args.topic)
  const { eventLog } = platform.engines
  const { epoch, physicalName } = platform.publisher.locationOf(topic)
  const resumed = args.lastEventId === undefined ? null : readPosition(args.lastEventId, 'Last-Event-ID')
  const ranges = (await eventLog.offsets(physicalName)).sort((a, b) => a.partition - b.partition)
  const start = beginAt(ranges, args, resumed, epoch)
  const next = new Map(start.next)
  const ends = new Map(ranges.map(({ partition, end }) => [partition, end]))
  const pace = createPace(shownPerSecond)
  const left = { slow: 0, rate: 0 }
  let waiting: NodeJS.Timeout | undefined
  const id = () => positionText({ epoch, next })

  /** Both numbers, so that nothing is missing unsaid. */
  function sayLeftOut(): void {
    clearTimeout(waiting)
    waiting = undefined
    for (const reason of ['slow', 'rate'] as const) {
      const records = left[reason]
      if (records > 0 && reader.hasRoom()) {
        left[reason] = 0
        reader.skipped(id(), { records, reason })
      }
    }
    if (left.slow + left.rate > 0) saySoon()
  }
  function saySoon(): void {
    waiting ??= setTimeout(sayLeftOut, sayAfterMs)
  }

  /** What lay there at the beginning waits for its turn; a later record is left out when there is none. */
  async function turnOf(record: StoredRecord): Promise<boolean> {
    const lay = record.offset < (ends.get(record.partition) ?? 0)
    if (!lay) {
      const reason = reader.hasRoom() ? (pace.take() ? null : 'rate') : 'slow'
      if (reason) left[reason] += 1
      return reason === null
    }
    while (!signal.aborted) {
      await reader.room()
      if (pace.take()) return true
      await sleep(pace.waitMs(), signal)
    }
    return false
  }

  async function take(record: StoredRecord): Promise<void> {
    const parts = { codec: platform.codec, topic }
    if (signal.aborted) return
    next.set(record.partition, record.offset + 1)
    if (!mayBeWanted(args.filter, record)) return
    // Decoded first only where its text decides.
    const found = args.filter.q === undefined ? undefined : await showWanted(parts, args.filter, record)
    if (found === null) return
    if (!(await turnOf(record))) return saySoon()
    const shown = found ?? (await showWanted(parts, args.filter, record))
    if (!shown || signal.aborted) return
    if (left.slow > 0) sayLeftOut()
    reader.record(id(), { ...shown, of: 1 + left.rate })
    left.rate = 0
  }

  if (start.reset) reader.reset(id())
  if (start.expired > 0) reader.skipped(id(), { records: start.expired, reason: 'expired' })
  reader.passed(id())
  // One after the other over all partitions: an id holds for what was sent before it.
  let taking: Promise<void> = Promise.resolve()
  const inTurn = (work: () => Promise<void> | void) => {
    taking = taking.then(work)
    return taking
  }
  const over = Promise.withResolvers<void>()
  const following = await followRecords({ ...platform, eventLog }, topic, {
    from: ({ partition, start: first }) => start.next.get(partition) ?? first,
    fetchBytesMax,
    frugal: true,
    onRecord: (record) => inTurn(() => take(record)),
    onBatch: () => inTurn(() => reader.passed(id())),
    onEnd: over.reject,
  })
  signal.addEventListener('abort', () => over.resolve(), { once: true })
  if (signal.aborted) over.resolve()
  try {
    await over.promise
  } finally {
    clearTimeout(waiting)
    await following.close()
  }
}

interface Beginning {
  next: Map<number, number>
  reset: boolean
  /** Records that the log does not hold any more. */
  expired: number
}

function beginAt(
  ranges: readonly PartitionRange[],
  { from, filter }: TopicStreamArgs,
  resumed: TopicPosition | null,
  epoch: number,
): Beginning {
  const goesOn =
    resumed?.epoch === epoch &&
    [...resumed.next.keys()].every((partition) => partition < ranges.length) &&
    ranges.every(({ partition, end }) => (resumed.next.get(partition) ?? 0) <= end)
  if (!goesOn) {
    const next = new Map(ranges.map((range) => [range.partition, startIn(range, from, filter.partition)]))
    return { next, reset: resumed !== null, expired: 0 }
  }
  let expired = 0
  const next = new Map<number, number>()
  for (const { partition, start } of ranges) {
    // A partition that was added since has nothing before its start.
    const at = resumed.next.get(partition) ?? start
    expired += Math.max(0, start - at)
    next.set(partition, Math.max(at, start))
  }
  return { next, reset: false, expired }
}

function startIn(
  { partition, start, end }: PartitionRange,
  from: StreamStart,
  only: number | undefined,
): number {
  if (only !== undefined && partition !== only) return end
  if (from === 'beginning') return start
  if (from === 'end') return end
  const at = 'offset' in from ? from.offset : end - from.newest
  return Math.min(Math.max(at, start), end)
}
