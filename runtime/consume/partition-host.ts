/** The contract between a partition and its runner: what a runner may ask of its partition, and what it must offer. */

import type { Logger } from 'pino'
import type { StoredRecord } from '#engines/event-log/port.ts'
import type { Schemas } from '#schemas/types.ts'
import type { SchemaName } from '#topics/topic.ts'
import type { ReadMessage } from '../follow/follow-topic.ts'
import type { Publisher } from '../publish/messages.ts'
import type { Committer } from './committer.ts'
import type { Parked } from './dead-letters.ts'
import type { Bookkeeping } from './event-ids.ts'
import type { EngineBreaker, HandlerCalls } from './handler-calls.ts'
import type { Progress, ResumeState } from './metadata.ts'
import type { GroupMetrics } from './metrics.ts'
import type { CrashGuard } from './position.ts'
import type { RecordBuffer, Shares } from './record-buffer.ts'
import type { ConsumerOptions } from './types.ts'

/** What the partitions of one group in one process share. */
export interface GroupContext {
  options: ConsumerOptions<SchemaName>
  publisher: Publisher
  log: Logger
  breaker: EngineBreaker
  calls: HandlerCalls
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
  /** Part of a partition's memory for records that were fetched and not taken. */
  bufferPart: number
  createRunner(host: RunnerHost): PartitionRunner
}

/** Decodes a record, at once where its schema is known. Never rejects. */
export type Decode<S extends SchemaName> = (
  record: StoredRecord,
) => ReadMessage<Schemas[S]> | Promise<ReadMessage<Schemas[S]>>

/** A partition as its runner sees it: when its calls may start, and what they work with. */
export interface RunnerHost {
  readonly group: GroupContext
  /** Aborts when no new call may start any more: at a drain, or when the partition is gone. */
  readonly ending: AbortSignal
  /** True when no call of an earlier term runs here and the former owner's fate is known; the first question finds out. */
  open(): boolean
  /** True when a call may start now. */
  mayCall(): boolean
  /** Resolves with true when `mayCall` said yes, with false when no call will start any more. */
  whenMayCall(): Promise<boolean>
  /**
   * Runs the work on one suspicious record while nothing else of the member runs: if the process ends, that record ended it.
   * Announced by a commit and cleared by another. Null when the partition came to its end before it began.
   */
  runIsolated<T>(offset: number, work: () => Promise<T>): Promise<T | null>
  readonly id: number
  readonly position: number
  readonly buffer: RecordBuffer
  readonly resumeState: ResumeState
  readonly guard: CrashGuard
  readonly committer: Committer
  /** Aborts when calls of the partition must end: it is lost, or its drain takes too long. */
  readonly lost: AbortSignal
  /** Aborts when the partition is lost, stopped or closed: outcomes are discarded from then on. */
  readonly gone: AbortSignal
  /** Writes dead letters; true when they are durable, false when the partition is gone. */
  park(parked: Parked[]): Promise<boolean>
  /** Repeats until it succeeds; false when the partition is gone before. */
  retryUntilDone(what: string, attempt: () => Promise<unknown>): Promise<boolean>
}

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
