/**
 * A live look into a topic for people. What lay in the log when it began comes whole, at most 200 records a second; of
 * what comes later as many are shown as fit, and each says for how many it is there. A reader that is behind misses
 * records, never holds the others up, and is given the number.
 */

import type { PartitionRange, StoredRecord } from '#engines/event-log/port.ts'
import { sleep } from '#lib/backoff.ts'
import { followRecords } from '#runtime/follow/follow-topic.ts'
import { type ShownRecord, showRecord } from '#runtime/follow/show-record.ts'
import type { Codec } from '#runtime/publish/messages.ts'
import type { Topic } from '#topics/topic.ts'
import { findTopic } from '../find-topic.ts'
import type { OperatedPlatform } from '../operation.ts'
import { positionText, readPosition, type TopicPosition } from './position.ts'

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

interface StreamPace {
  /** True when one more may be shown now, which then counts. */
  take(): boolean
  /** Milliseconds until one more may be shown. */
  waitMs(): number
}

const windowMs = 1_000

/** For a second after one was full they are spread, so that a flood is shown evenly. */
export function createPace(perSecond: number, now: () => number = () => performance.now()): StreamPace {
  /** When the last ones were shown, as a ring: the next slot holds the oldest. */
  const shownAt = new Float64Array(perSecond).fill(Number.NEGATIVE_INFINITY)
  let next = 0
  let last = Number.NEGATIVE_INFINITY
  let fullAt = Number.NEGATIVE_INFINITY
  function waitMs(at: number): number {
    const full = shownAt[next]! + windowMs - at
    if (full > 0) fullAt = at
    const spread = at - fullAt < windowMs ? last + windowMs / perSecond - at : 0
    return Math.max(0, full, spread)
  }
  return {
    take() {
      const at = now()
      if (waitMs(at) > 0) return false
      shownAt[next] = last = at
      next = (next + 1) % perSecond
      return true
    },
    waitMs: () => Math.ceil(waitMs(now())),
  }
}

/** Characters of a value's JSON, and of a key or one header. */
export const valueLengthMax = 8_192
const labelLengthMax = 1_024
const headersMax = 50

interface RecordFilter {
  partition?: number
  /** Exactly this record key. */
  key?: string
  /** A header with exactly this value. */
  header?: { name: string; value: string }
  /** Found in the key, a header or the value's JSON, in any case. */
  q?: string
}

/** A record as it is shown; `cut` names the length of a value of which only the beginning is shown, as text. */
type StreamedRecord = ShownRecord & { cut?: { length: number } }

/** What can be said without decoding it. */
function mayBeWanted({ partition, key, header }: RecordFilter, record: StoredRecord): boolean {
  // There is nothing to read at its offset.
  if (record.hidden) return false
  if (partition !== undefined && record.partition !== partition) return false
  if (key !== undefined && record.key?.toString('utf8') !== key) return false
  return header === undefined || record.headers[header.name] === header.value
}

/** The record decoded and cut; null when it does not hold what `q` asks for. */
async function showWanted(
  { codec, topic }: { codec: Codec; topic: Topic },
  { q }: RecordFilter,
  record: StoredRecord,
): Promise<StreamedRecord | null> {
  const shown = await showRecord(codec, topic, record)
  const json = JSON.stringify(shown.value) ?? 'null'
  if (q !== undefined && !holds(shown, json, q.toLowerCase())) return null
  const headers = Object.entries(shown.headers)
    .slice(0, headersMax)
    .map(([name, value]) => [name.slice(0, labelLengthMax), value.slice(0, labelLengthMax)])
  const key = shown.key?.slice(0, labelLengthMax) ?? null
  const whole = { ...shown, key, headers: Object.fromEntries(headers) }
  if (json.length <= valueLengthMax) return whole
  return { ...whole, value: json.slice(0, valueLengthMax), cut: { length: json.length } }
}

function holds({ key, headers }: ShownRecord, json: string, q: string): boolean {
  const texts = [key ?? '', ...Object.values(headers), json]
  return texts.some((text) => text.toLowerCase().includes(q))
}
