/** What the partitions of a group share, and what the runner of a partition must offer. */

import type { Logger } from 'pino'
import type { StoredRecord } from '#engines/event-log/port.ts'
import type { Schemas } from '#schemas/types.ts'
import type { SchemaName } from '#topics/topic.ts'
import type { ReadMessage } from '../follow/follow-topic.ts'
import type { Publisher } from '../publish/messages.ts'
import type { SharedRests } from './committer.ts'
import type { Bookkeeping } from './event-ids.ts'
import type { EngineBreaker, HandlerCalls } from './handler-calls.ts'
import type { Progress } from './metadata.ts'
import type { GroupMetrics } from './metrics.ts'
import type { Gathering, Shares } from './record-buffer.ts'
import type { ConsumerOptions } from './types.ts'

/** What the partitions of one group in one process share. */
export interface GroupContext {
  options: ConsumerOptions<SchemaName>
  publisher: Publisher
  log: Logger
  breaker: EngineBreaker
  calls: HandlerCalls
  gathering: Gathering
  rests: SharedRests
  /** While a suspicious record runs isolated, no other call of the member starts. */
  exclusive: { held: boolean }
  /** Names this member in its commits. */
  token: number
  /** A record whose handling ends the process again and again is parked. */
  blamesRecords: boolean
  /** True when the process of an owner is not in the group any more; in doubt false. */
  hasDied(owner: number): Promise<boolean>
  metrics: GroupMetrics
  /** What event ids take their memory from, shared by the groups of the process. */
  bookkeeping: Bookkeeping
  /** Calls may start that waited. */
  wakeAll(): void
  /** A partition's share of the memory that the group may hold, in bytes. */
  shareBytes(): number
  /** Commits are made as if somebody waited for them. */
  hurries: boolean
  /** Part of a partition's memory for records that were fetched and not taken. */
  bufferPart: number
}

/** Decodes a record, at once where its schema is known. Never rejects. */
export type Decode<S extends SchemaName> = (
  record: StoredRecord,
) => ReadMessage<Schemas[S]> | Promise<ReadMessage<Schemas[S]>>

/** Runs the records of one partition: as batches or in lanes. */
export interface PartitionRunner {
  /** Something has changed (records came, calls may start): do what can be done. Never blocks. */
  pump(): void
  /** For a commit that is about to be written. */
  progress(): Progress
  /** Offsets between the watermark and the last record taken. */
  window(): number
  /** Records below `end` that are not settled; null: all that is not committed. */
  waiting(end: number): number | null
  /** When the oldest record was appended that was taken and is not settled, in milliseconds; null when there is none. */
  oldest(): number | null
  /** Handler calls that run. */
  inFlight(): number
  /** Resolves when no call of this runner runs any more. */
  idle(): Promise<void>
  /** A record below the position was read back. */
  settledBefore?(record: StoredRecord): void
  /** Heads that wait for a time are due now. */
  wake?(): void
  /** Adds the bytes of records at work, where their blocks are worth keeping. */
  addShares?(shares: Shares): void
  /** Called now and then: records that wait are copied out of the blocks that they were read with, where copies take less. */
  copyOut(shares: Shares): void
  /** The partition is gone: drop pending records. */
  stop(): void
}
