/** Follows hub.records once for all open streams of this instance. */

import type { Logger } from 'pino'
import type { EventLog, StoredRecord } from '#engines/event-log/port.ts'
import { withTimeout } from '#lib/backoff.ts'
import { deadlines } from '#lib/deadlines.ts'
import { AppError, describeError } from '#lib/errors.ts'
import { createLru } from '#lib/lru.ts'
import type { Closeable } from '#lib/resource.ts'
import type { Codec, Publisher } from '#runtime/messages.ts'
import type { HubRecord } from '#schemas/types.ts'
import { hubRecords } from '#topics/catalog.ts'
import type { StreamPosition } from './event-id.ts'

/** Notes and goals whose last version is remembered. */
const versionsMax = 10_000

export interface FeedRecord {
  partition: number
  offset: number
  /** Null for what is no state of a note or goal, or an older one than was shown before. */
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
}

export interface FeedParts {
  eventLog: EventLog
  codec: Codec
  publisher: Pick<Publisher, 'locationOf'>
  log: Logger
}

export async function openFeed({ eventLog, codec, publisher, log }: FeedParts): Promise<Feed> {
  const { physicalName, epoch, partitions } = publisher.locationOf(hubRecords)
  const next = Array.from({ length: partitions }, () => 0)
  const listeners = new Set<(record: FeedRecord) => void>()
  const versions = createLru<string, number>(versionsMax)
  let turn: Promise<void> = Promise.resolve()

  async function decode(record: StoredRecord): Promise<FeedRecord> {
    const { partition, offset } = record
    if (record.hidden || record.value === null) return { partition, offset, record: null }
    const { key, value } = await codec.decode(hubRecords, record)
    if (value === null || (versions.get(key) ?? 0) > value.version) return { partition, offset, record: null }
    versions.set(key, value.version)
    return { partition, offset, record: value }
  }

  /** What cannot be read is left out: the streams go on. */
  async function pass(records: readonly StoredRecord[]): Promise<void> {
    for (const record of records) {
      const { partition, offset } = record
      // The outbox may publish twice, and a tail may repeat: what streams had is not shown again.
      if (offset < next[partition]!) continue
      let read: FeedRecord = { partition, offset, record: null }
      try {
        if (listeners.size > 0) read = await decode(record)
      } catch (error) {
        log.warn({ partition, offset, reason: describeError(error) }, 'hub.event-unreadable')
      }
      next[partition] = offset + 1
      for (const listener of listeners) listener(read)
    }
  }

  const tail = await eventLog.tail({
    topic: physicalName,
    from: 'end',
    records(_partition, records) {
      turn = turn.then(() => pass(records))
    },
  })
  const ready = tail.ready.then(() => {
    for (const [partition, offset] of tail.positions()) next[partition] = Math.max(next[partition]!, offset)
  })
  // Each stream asks for it.
  ready.catch(() => undefined)
  return {
    topic: physicalName,
    decode,
    ready: () => withTimeout(ready, deadlines.request.awayMs, logIsAway),
    position: () => ({ epoch, next: [...next] }),
    subscribe(listener) {
      listeners.add(listener)
      return () => listeners.delete(listener)
    },
    async close() {
      await tail.close()
      await turn
    },
  }
}

function logIsAway(): AppError {
  return new AppError('log_unavailable', 'The log does not answer.', { retryAfter: 1 })
}
