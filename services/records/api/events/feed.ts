/**
 * Follows hub.records once for all open streams of this instance. The id of an event says how far a stream has come in every
 * partition, so that it resumes without gaps.
 */

import type { StoredRecord } from '#engines/event-log/port.ts'
import { withTimeout } from '#lib/backoff.ts'
import { deadlines } from '#lib/deadlines.ts'
import { AppError } from '#lib/errors.ts'
import { createLru } from '#lib/lru.ts'
import {
  type FollowParts,
  type FollowRecords,
  followRecords,
  followTopic,
} from '#runtime/follow/follow-topic.ts'
import type { EventStream, Json } from '#runtime/http/event-stream.ts'
import { validationFailed } from '#runtime/http/validation.ts'
import type { Codec, Message, Position } from '#runtime/publish/messages.ts'
import type { HubRecord } from '#schemas/types.ts'
import { hubRecords } from '#topics/catalog.ts'

/** Notes and goals whose last version is remembered. */
const versionsMax = 10_000

/** Where a stream goes on. */
interface StreamPosition {
  /** Epoch of the topic: offsets of another epoch mean something else. */
  epoch: number
  /** The next offset of each partition, in the order of their numbers. */
  next: readonly number[]
}

export interface FeedRecord {
  partition: number
  offset: number
  /** Null for a record that is not the state of a note or goal, or is older than the one shown before. */
  record: HubRecord | null
}

export type Feed = Awaited<ReturnType<typeof openFeed>>

export async function openFeed(parts: FollowParts & { codec: Codec }) {
  const { codec, eventLog, publisher } = parts
  const { physicalName, epoch, partitions } = publisher.locationOf(hubRecords)
  const next = Array.from({ length: partitions }, () => 0)
  const listeners = new Set<(record: FeedRecord) => void>()
  const versions = createLru<string, number>(versionsMax)

  async function decode(record: StoredRecord): Promise<FeedRecord> {
    const { partition, offset } = record
    if (record.hidden || record.value === null) return { partition, offset, record: null }
    return newest(await codec.decode(hubRecords, record))
  }
  function newest({ partition, offset, key, value }: Message<HubRecord>): FeedRecord {
    if (value === null || (versions.get(key) ?? 0) > value.version) return { partition, offset, record: null }
    versions.set(key, value.version)
    return { partition, offset, record: value }
  }

  /** The outbox may publish twice, and a tail may repeat: what streams had is not shown again. */
  const isNew = ({ partition, offset }: Position) => offset >= next[partition]!
  function pass(read: FeedRecord): void {
    next[read.partition] = read.offset + 1
    for (const listener of listeners) listener(read)
  }

  const following = await followTopic(parts, hubRecords, {
    from: 'end',
    wanted(record) {
      if (!isNew(record)) return false
      if (listeners.size > 0) return true
      // Who comes next begins behind it.
      next[record.partition] = record.offset + 1
      return false
    },
    onMessage(message, record) {
      if (isNew(record)) pass(newest(message))
    },
    // It is left out: the streams go on.
    onFault({ partition, offset }) {
      pass({ partition, offset, record: null })
    },
    onBatch(partition, end) {
      next[partition] = Math.max(next[partition]!, end)
    },
  })
  const ready = following.ready.then(() => {
    for (const [partition, offset] of following.positions())
      next[partition] = Math.max(next[partition]!, offset)
  })
  const away = () => new AppError('log_unavailable', 'The log does not answer.', { retryAfter: 1 })
  // Each stream asks for it.
  ready.catch(() => undefined)
  return {
    /** Resolves once the topic is followed. Rejects with AppError `log_unavailable` while the log is away. */
    ready: () => withTimeout(ready, deadlines.request.awayMs, away),
    /** How far the streams have come. */
    position: (): StreamPosition => ({ epoch, next: [...next] }),
    /** Calls `listener` with each record from `position` on until the result is called. */
    subscribe(listener: (record: FeedRecord) => void): () => void {
      listeners.add(listener)
      return () => listeners.delete(listener)
    },
    /** As subscribers get it. Rejects when the registry is away. */
    decode,
    /** What the log holds of the topic. */
    ranges: () => eventLog.offsets(physicalName),
    /** The records of the topic once more, from elsewhere. */
    follow: (options: FollowRecords) => followRecords(parts, hubRecords, options),
    close: following.close,
  }
}

const base = 36
const lengthMax = 8_192

/** Opaque to callers. */
export function eventIdOf({ epoch, next }: StreamPosition): string {
  return [epoch, ...next].map((number) => number.toString(base)).join('.')
}

/** Throws AppError `validation_failed` for an invalid event id. */
export function readEventId(id: string): StreamPosition {
  const numbers = id.length > lengthMax ? [] : id.split('.').map((text) => Number.parseInt(text, base))
  const [epoch = Number.NaN, ...next] = numbers
  const whole = numbers.every((number) => Number.isSafeInteger(number) && number >= 0)
  if (whole && eventIdOf({ epoch, next }) === id) return { epoch, next }
  throw validationFailed([{ path: 'Last-Event-ID', message: 'the id of an event of this stream' }])
}

/** Records that wait while the stream reads what it missed. */
const waitingMax = 100
const fetchBytesMax = 32 * 1024

interface StreamParts {
  feed: Feed
  stream: EventStream
  kind: HubRecord['kind']
  /** Made once for all streams. */
  text(record: HubRecord): Json
  /** Position of the last event that the reader had. */
  resumed: StreamPosition | null
  signal: AbortSignal
}

/**
 * One open stream of changes: missed events first, then new ones, and `reset` where events may be missing. Resolves when the
 * signal aborts. Rejects when the log does not let it read what it missed.
 */
export async function streamChanges(parts: StreamParts): Promise<void> {
  const { feed, stream, signal, resumed } = parts
  const position = feed.position()
  const next = [...position.next]
  const id = () => eventIdOf({ epoch: position.epoch, next })
  const waiting: FeedRecord[] = []
  let replaying = false
  let behind = false

  function show({ partition, offset, record }: FeedRecord): void {
    next[partition] = Math.max(next[partition]!, offset + 1)
    if (record?.kind === parts.kind) stream.send({ id: id(), data: parts.text(record) })
    else stream.mark(id())
  }

  /** A reader that does not keep up lists again: nobody keeps for it what it did not take. */
  function fallBehind(): void {
    if (behind) return
    behind = true
    void stream.room().then(() => {
      if (signal.aborted) return
      behind = false
      next.splice(0, next.length, ...feed.position().next)
      stream.send({ event: 'reset', id: id(), data: {} })
    })
  }

  function pass(record: FeedRecord): void {
    if (behind) return
    if (replaying && waiting.length < waitingMax) waiting.push(record)
    else if (replaying || !stream.hasRoom()) fallBehind()
    else show(record)
  }

  const leave = feed.subscribe(pass)
  try {
    const from = resumed === null ? 'now' : await startOf(parts, resumed, position)
    if (from === 'now') stream.send({ event: 'ready', id: id(), data: {} })
    else if (from === 'reset') stream.send({ event: 'reset', id: id(), data: {} })
    else if (from.some((offset, partition) => offset < position.next[partition]!)) {
      replaying = true
      next.splice(0, next.length, ...from)
      await replay(parts, from, position, show)
      replaying = false
      for (const record of waiting.splice(0)) pass(record)
    } else stream.mark(id())
    await aborted(signal)
  } finally {
    leave()
  }
}

/** Where the stream goes on behind what its reader had; `reset` when that is not in the log any more. */
async function startOf(
  { feed }: StreamParts,
  resumed: StreamPosition,
  present: StreamPosition,
): Promise<number[] | 'reset'> {
  const known = resumed.epoch === present.epoch && resumed.next.length === present.next.length
  if (!known) return 'reset'
  // A reader may have had, at another instance, what this one has not read yet.
  const ranges = await feed.ranges()
  const inLog = ranges.every(
    ({ partition, start, end }) => resumed.next[partition]! >= start && resumed.next[partition]! <= end,
  )
  return inLog ? [...resumed.next] : 'reset'
}

async function replay(
  { feed, stream, signal }: StreamParts,
  from: readonly number[],
  to: StreamPosition,
  show: (record: FeedRecord) => void,
): Promise<void> {
  const ended = Promise.withResolvers<void>()
  const following = await feed.follow({
    from: ({ partition }) => from[partition] ?? 0,
    fetchBytesMax,
    frugal: true,
    async onRecord(record) {
      await stream.room()
      // The feed brings later events.
      if (signal.aborted || record.offset >= to.next[record.partition]!) return
      show(await feed.decode(record))
    },
    onEnd: ended.reject,
  })
  try {
    await Promise.race([following.ready, ended.promise, aborted(signal)])
  } finally {
    await following.close()
  }
}

function aborted(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) return resolve()
    signal.addEventListener('abort', () => resolve(), { once: true })
  })
}
