/** What a topic is: its name, key and schema, how long it is kept, who writes it and who reads it. */

import type { Schemas } from '#schemas/types.ts'
import type { TopicPromise } from './promises.ts'

export type SchemaName = keyof Schemas

export type Reader =
  /** A consumer group that works through every record. `batch` or `lanes` is the mode it runs in. */
  | { service: string; group: string; mode: 'batch' | 'lanes' }
  /** Every instance reads all partitions and commits nothing. */
  | { service: string; tail: 'beginning' | 'end' }

/** A topic as its readers see it: keys are text, values follow the schema. */
export interface Topic<S extends SchemaName = SchemaName> {
  name: string
  purpose: string
  /** What the key is, in words. */
  keyedBy: string
  /** Name of the file in schemas/ (without .avsc) that every value follows; its subject is `<topic>-value`. */
  schema: S
  /**
   * Where other systems may build on the topic: what they can rely on. All other topics are internal and may change with
   * any release.
   */
  public?: TopicPromise
  partitions: number
  /**
   * True when rows say who owns a partition, not the hash of a key: more partitions may then be added at any
   * time, also while readers run, and no record moves.
   */
  owned?: boolean
  cleanup: 'delete' | 'compact'
  /** Milliseconds, null for "until deleted behind the readers". Of a compacted topic: null. */
  retentionMs: number | null
  /** True when some group may park records: then `<topic>.dead-letters` belongs to it. */
  deadLetters: boolean
  writers: string[]
  readers: Reader[]
}

/** A topic as its writers see it: keys are typed, and the topic makes the record's key from them. */
export interface KeyedTopic<K, S extends SchemaName = SchemaName> extends Topic<S> {
  /** The record key of a typed key. Records with one key keep their order. */
  key(key: K): string
}

/** What most topics have. */
const usual = { partitions: 12, retentionMs: null, deadLetters: false }
type Usual = keyof typeof usual

export function defineTopic<K, S extends SchemaName>(
  topic: Omit<KeyedTopic<K, S>, Usual> & Partial<Pick<KeyedTopic<K, S>, Usual>>,
): KeyedTopic<K, S> {
  return { ...usual, ...topic }
}
