/** The one way to follow a topic: decoded in order, nothing dropped in silence, and never long on the event loop. */

import type { Logger } from 'pino'
import type {
  Log,
  Misplaced as LogMisplaced,
  StoredRecord,
  Tail,
  TailOptions,
} from '#engines/event-log/port.ts'
import { backoffMs, sleep } from '#lib/backoff.ts'
import { describeError, isUnavailable, whyWaiting } from '#lib/errors.ts'
import { spendTurn } from '#lib/giving-way.ts'
import type { Schemas } from '#schemas/types.ts'
import type { SchemaName, Topic } from '#topics/topic.ts'
import type { Codec, Message, Publisher } from '../publish/messages.ts'

const registryBackoff = { baseMs: 100, maxMs: 5_000 }

export interface FollowParts {
  eventLog: Log
  publisher: Pick<Publisher, 'locationOf'>
  log: Logger
}

export type Misplaced = LogMisplaced & { partition: number }

interface FollowBase {
  from: TailOptions['from']
  /** Size of one fetch of a partition. Default 1 MiB. */
  fetchBytesMax?: number
  /** As of a tail: for readers of which there may be many. */
  frugal?: boolean
  /** Records of this partition below `next` were given, hidden ones included. */
  onBatch?(partition: number, next: number): void | Promise<void>
  /**
   * Records went before they were read, or the position was never there. The error that it returns ends the following.
   * Default: it is logged, and goes on at the first record that is kept.
   */
  misplaced?(problem: Misplaced): Error | undefined
  /** Called once when a handler threw, or `misplaced` returned an error; nothing comes afterwards. Default: it is logged. */
  onEnd?(error: unknown): void
}

export interface FollowRecords extends FollowBase {
  /** In the order of its partition. The next one comes when it has resolved. */
  onRecord(record: StoredRecord): void | Promise<void>
}

interface FollowTopic<V> extends FollowBase {
  /** Whether a record is worth decoding. Default: all are. */
  wanted?(record: StoredRecord): boolean
  /** In the order of its partition. The next one comes when it has resolved. */
  onMessage(message: Message<V>, record: StoredRecord): void | Promise<void>
  /** A record that cannot be decoded, in its place. It is logged as well: the first of those in a row. */
  onFault?(record: StoredRecord, reason: string): void | Promise<void>
}

/** As a tail; `current` is false for good once it has ended. */
export type Following = Tail

/** Every record as it is stored. Throws what the log throws where there is no such topic. */
export async function followRecords(
  { eventLog, publisher, log }: FollowParts,
  topic: Topic,
  options: FollowRecords,
): Promise<Following> {
  const stop = new AbortController()
  const taking = new Set<Promise<void>>()
  let ended = false

  function end(error: unknown): void {
    if (ended || stop.signal.aborted) return
    ended = true
    stop.abort()
    if (options.onEnd) options.onEnd(error)
    else log.error({ topic: topic.name, reason: describeError(error) }, 'follow.ended')
    // A tail opened meanwhile is closed once it is open.
    void tail?.close()
  }

  /** Resolves when it is given and the loop may go on; undefined when that is at once. */
  function give(record: StoredRecord): Promise<unknown> | undefined {
    const given = record.hidden ? undefined : (options.onRecord(record) ?? undefined)
    const turn = spendTurn(recordBytes(record))
    return given && turn ? Promise.all([given, turn]) : (given ?? turn)
  }
  async function take(partition: number, records: StoredRecord[]): Promise<void> {
    for (const record of records) {
      const waits = give(record)
      if (waits) await waits
      if (stop.signal.aborted) return
    }
    await options.onBatch?.(partition, records.at(-1)!.offset + 1)
  }

  let tail: Tail | undefined
  tail = await eventLog.tail({
    topic: publisher.locationOf(topic).physicalName,
    from: options.from,
    ...(options.fetchBytesMax === undefined ? {} : { fetchBytesMax: options.fetchBytesMax }),
    frugal: options.frugal ?? false,
    records(partition, records) {
      if (stop.signal.aborted) return undefined
      const given = take(partition, records).catch(end)
      taking.add(given)
      return given.finally(() => taking.delete(given))
    },
    misplaced(partition, problem) {
      const error = options.misplaced?.({ partition, ...problem })
      if (error) end(error)
      else log.warn({ topic: topic.name, partition, ...problem }, 'follow.misplaced')
    },
  })
  const opened = tail
  if (ended) await opened.close()
  return {
    ready: opened.ready,
    positions: opened.positions,
    current: () => !ended && opened.current(),
    caughtUp: async () => (await opened.caughtUp()) && !ended,
    async close() {
      stop.abort()
      await opened.close()
      await Promise.all(taking)
    },
  }
}

/**
 * Every record decoded; null values are tombstones. While the registry is away it waits, and then goes on with the same
 * record. Throws what the log throws where there is no such topic.
 */
export async function followTopic<S extends SchemaName>(
  parts: FollowParts & { codec: Codec },
  topic: Topic<S>,
  { wanted, onMessage, onFault, ...base }: FollowTopic<Schemas[S]>,
): Promise<Following> {
  const closed = new AbortController()
  /** Partitions whose last record could not be decoded: the first in a row is logged. */
  const unreadable = new Set<number>()
  const following = await followRecords(parts, topic, {
    ...base,
    onRecord(record) {
      if (wanted && !wanted(record)) return undefined
      const read = readMessage(parts, topic, record, closed.signal)
      return read instanceof Promise ? read.then((late) => give(late, record)) : give(read, record)
    },
  })
  function give({ message, fault }: ReadMessage<Schemas[S]>, record: StoredRecord): void | Promise<void> {
    const { partition, offset } = record
    if (message) {
      unreadable.delete(partition)
      return onMessage(message, record)
    }
    // Closed while it waited for the registry.
    if (fault === undefined) return undefined
    if (!unreadable.has(partition)) {
      parts.log.error({ topic: topic.name, partition, offset, reason: fault }, 'follow.unreadable')
    }
    unreadable.add(partition)
    return onFault?.(record, fault)
  }
  return {
    ...following,
    close() {
      closed.abort()
      return following.close()
    },
  }
}

/** `fault`: why it cannot be decoded. Neither of them: the signal aborted while the registry was away. */
export interface ReadMessage<V> {
  message?: Message<V>
  fault?: string
}

/**
 * Decodes a record whatever state the registry is in. At once where the schema is known. While the registry is away it is asked
 * again until the signal aborts. Never rejects.
 */
export function readMessage<S extends SchemaName>(
  parts: { codec: Codec; log: Logger },
  topic: Topic<S>,
  record: StoredRecord,
  signal: AbortSignal,
): ReadMessage<Schemas[S]> | Promise<ReadMessage<Schemas[S]>> {
  try {
    const message = parts.codec.decode(topic, record)
    return message instanceof Promise ? readLate(parts, topic, record, signal, message) : { message }
  } catch (error) {
    return readLate(parts, topic, record, signal, Promise.reject(error))
  }
}

async function readLate<S extends SchemaName>(
  { codec, log }: { codec: Codec; log: Logger },
  topic: Topic<S>,
  record: StoredRecord,
  signal: AbortSignal,
  first: Promise<Message<Schemas[S]>>,
): Promise<ReadMessage<Schemas[S]>> {
  for (let failures = 0; ; failures++) {
    try {
      return { message: await (failures === 0 ? first : codec.decode(topic, record)) }
    } catch (error) {
      if (!isUnavailable(error)) return { fault: describeError(error) }
      if (signal.aborted) return {}
      if (failures === 0)
        log.warn({ topic: topic.name, partition: record.partition, ...whyWaiting(error) }, 'follow.waiting')
      await sleep(backoffMs(failures, registryBackoff), signal)
    }
  }
}

/** What a record's key and value weigh. */
export function recordBytes({ bytes, key, value }: StoredRecord): number {
  return bytes ?? (key?.length ?? 0) + (value?.length ?? 0)
}
