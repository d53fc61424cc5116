/** The types of messages over the event log: what services publish and what handlers receive. */

import type { AppendOptions, StoredRecord } from '#engines/event-log/port.ts'
import type { Closeable } from '#lib/resource.ts'
import type { Schemas } from '#schemas/types.ts'
import type { HeaderName } from '#topics/promises.ts'
import type { KeyedTopic, SchemaName, Topic } from '#topics/topic.ts'

/** Names of headers. Every record carries event-id, producer and occurred-at; the rest where it applies. */
export const headerNames = {
  /** Unique per event, the same in every copy: consumers drop repeats by it (not on compacted topics). */
  eventId: 'event-id',
  agent: 'agent',
  requestId: 'request-id',
  traceparent: 'traceparent',
  producer: 'producer',
  /** Somebody waits for what becomes of the record. */
  awaited: 'awaited',
  /** ISO 8601 UTC with milliseconds. */
  occurredAt: 'occurred-at',
} as const satisfies Record<string, HeaderName>

export interface OutgoingMessage<K, V> {
  key: K
  /** null is a tombstone (delete) on a compacted topic. */
  value: V | null
  /** Made when absent. */
  eventId?: string
  /** Further headers by the names above. */
  headers?: Record<string, string>
}

export interface Position {
  partition: number
  offset: number
}

export interface Message<V> extends Position {
  key: string
  value: V | null
  headers: Record<string, string>
  /** When the record was appended, ms since 1970. */
  timestamp: number
}

export interface PublishOptions extends AppendOptions {
  /** All messages go to this partition instead of their key's. */
  partition?: number
}

/** Messages of one topic, encoded as they are added, published together. */
export interface MessageBatch<K, V> {
  /** Messages added. */
  readonly size: number
  /**
   * Encodes the message, at once when the topic's schema is known. Otherwise the promise resolves when it is added, and
   * the next one has to wait for it. Throws, or rejects with, what the codec throws; the message is not added then.
   */
  add(message: OutgoingMessage<K, V>): Promise<void> | undefined
  /**
   * As `Publisher.publish`. May be called again when it failed: the event ids stay the same, so that consumers
   * recognise what was stored after all as a repeat.
   */
  publish(options?: AppendOptions): Promise<Position[]>
}

/** Publishes typed messages: encodes by the topic's schema, chooses partitions by key, adds the standard headers. */
export interface Publisher {
  /**
   * Resolves with each message's position once all are acknowledged. Messages with one key keep their order. Throws
   * AppError `log_unavailable` or `overloaded`; some messages may be stored then, none is lost that was resolved.
   */
  publish<K, S extends SchemaName>(
    topic: KeyedTopic<K, S>,
    messages: OutgoingMessage<K, Schemas[S]>[],
    options?: PublishOptions,
  ): Promise<Position[]>
  /** For many messages that come one by one: they are encoded as they come, not when they are published. */
  batch<K, S extends SchemaName>(topic: KeyedTopic<K, S>): MessageBatch<K, Schemas[S]>
  /**
   * Takes over a writer name, for publishers whose records must not land behind those of their successor
   * (`Log.fencedWriter`). Throws AppError `log_unavailable`.
   */
  fenced(name: string): Promise<FencedPublisher>
  /** Where a topic lives now: its physical name, epoch and partitions. */
  locationOf(topic: Topic): TopicLocation
}

/** Publishes under a writer name; every call throws AppError `fenced` once another one has taken the name over. */
export interface FencedPublisher extends Pick<Publisher, 'publish' | 'batch'>, Closeable {}

/** The physical topic behind a topic of the catalogue. */
export interface TopicLocation {
  physicalName: string
  epoch: number
  partitions: number
}

/** Encodes values as Avro in the Confluent wire format, and decodes records. */
export interface Codec {
  /** `take` gives the memory of a large value; default: it has memory of its own. */
  encode<S extends SchemaName>(
    topic: Topic<S>,
    value: Schemas[S],
    take?: (bytes: number) => Buffer,
  ): Promise<Buffer> | Buffer
  /**
   * The message of a stored record; a null value stays null and never reaches the registry. Throws an Error that says
   * why when the bytes cannot be decoded, AppError `registry_unavailable` when the registry is away.
   */
  decode<S extends SchemaName>(
    topic: Topic<S>,
    record: StoredRecord,
  ): Promise<Message<Schemas[S]>> | Message<Schemas[S]>
}
