/**
 * Follows hub.records once for all open streams of this instance. The id of an event says how far a stream has come in every
 * partition, so that it resumes without gaps.
 */

import type { StoredRecord } from '#engines/event-log/port.ts'
import { withTimeout } from '#lib/backoff.ts'
import { deadlines } from '#lib/deadlines.ts'
import { AppError } from '#lib/errors.ts'
import { createLru } from '#lib/lru.ts'
import type { Closeable } from '#lib/resource.ts'
import {
  type Following,
  type FollowParts,
  type FollowRecords,
  followRecords,
  followTopic,
} from '#runtime/follow/follow-topic.ts'
import { validationFailed } from '#runtime/http/validation.ts'
import type { Codec, Message, Position } from '#runtime/publish/messages.ts'
import type { HubRecord } from '#schemas/types.ts'
import { hubRecords } from '#topics/catalog.ts'

/** Notes and goals whose last version is remembered. */
const versionsMax = 10_000

/** Where a stream goes on. */
export interface StreamPosition {
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

export interface Feed extends Closeable {
  /** Resolves once the topic is followed. Rejects with AppError `log_unavailable` while the log is away. */
  ready(): Promise<void>
  /** How far the streams have come. */
  position(): StreamPosition
  /** Calls `listener` with each record from `position` on until the result is called. */
  subscribe(listener: (record: FeedRecord) => void): () => void
  /** As subscribers get it. Rejects when the registry is away. */
  decode(record: StoredRecord): Promise<FeedRecord>
  /** Physical name of the topic. */
  topic: string
  /** The records of the topic once more, from elsewhere. */
  follow(options: FollowRecords): Promise<Following>
}

export type FeedParts = FollowParts & { codec: Codec }

export async function openFeed(parts: FeedParts): Promise<Feed> {
  const { codec, publisher } = parts
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
  // Each stream asks for it.
  ready.catch(() => undefined)
  return {
    topic: physicalName,
    follow: (options) => followRecords(parts, hubRecords, options),
    decode,
    ready: () => withTimeout(ready, deadlines.request.awayMs, logIsAway),
    position: () => ({ epoch, next: [...next] }),
    subscribe(listener) {
      listeners.add(listener)
      return () => listeners.delete(listener)
    },
    close: following.close,
  }
}

function logIsAway(): AppError {
  return new AppError('log_unavailable', 'The log does not answer.', { retryAfter: 1 })
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
  throw validationFailed([{ path: 'Last-Event-ID', message: 'must be the id of an event of this stream' }])
}
