/** What a partition and the two ways of running its records (batches, lanes) know of each other. */

import type { Logger } from 'pino'
import type { GroupConsumer, StoredRecord } from '#engines/event-log/port.ts'
import type { SchemaName, Topic } from '#topics/topic.ts'
import type { ConsumerOptions } from '../consumer.ts'
import type { Codec, Message, Publisher } from '../messages.ts'
import type { CommitPace, Committer } from './committer.ts'
import type { CrashGuard } from './crash-guard.ts'
import type { Gate } from './engine-breaker.ts'
import type { Calls } from './handler-calls.ts'
import type { Progress } from './metadata.ts'
import type { GroupMetrics } from './metrics.ts'
import type { Parked } from './parking.ts'
import type { Intake } from './record-buffer.ts'
import type { Sieve } from './resume-state.ts'

export type AnyOptions = ConsumerOptions<SchemaName>
export type AnyMessage = Message<never>

/** What the partitions of one group in one process share. */
export interface GroupContext {
  options: AnyOptions
  topic: Topic<never>
  codec: Codec
  publisher: Publisher
  log: Logger
  consumer: GroupConsumer
  gate: Gate
  calls: Calls
  pace: CommitPace
  /** While a suspicious record runs alone, no other call of the member starts. */
  exclusive: { held: boolean }
  /** Names this member in its commits. */
  token: number
  /** Calls may start that waited. */
  wakeAll(): void
  metrics: GroupMetrics
  /** A partition's share of the memory that the group may hold, in bytes. */
  shareBytes(): number
}

/** A partition as its runner sees it. */
export interface RunnerHost {
  readonly id: number
  readonly group: GroupContext
  readonly log: Logger
  readonly position: number
  readonly intake: Intake
  readonly sieve: Sieve
  readonly guard: CrashGuard
  readonly committer: Committer
  /** Aborts when the partition is lost, stopped or closed: outcomes are discarded from then on. */
  readonly gone: AbortSignal
  /** Aborts when no new call may start any more: at a drain, or when the partition is gone. */
  readonly ending: AbortSignal
  /** The same, asked. */
  readonly over: boolean
  /** True when a call may start now; ask only with a call at hand. */
  mayCall(): boolean
  /** Resolves when `mayCall` said yes; false when the partition is over. */
  callable(): Promise<boolean>
  /** Dead letters; true when they are durable, false when the partition is gone. */
  park(parked: Parked[]): Promise<boolean>
  /** Repeats until it succeeds; false when the partition is gone before. */
  persist(what: string, attempt: () => Promise<unknown>): Promise<boolean>
  /** Reads again from an offset below what was read; the records come to `refill`. */
  readAgainFrom(offset: number): void
  /** Ends reading again: goes on with what was never read. */
  readOn(): void
}

export interface Runner {
  /** Something has changed (records came, calls may start): do what can be done. Never blocks. */
  pump(): void
  /** For a commit that is about to be written. */
  progress(): Progress
  /** Offsets between the watermark and the last record taken. */
  window(): number
  /** Records below `end` that are not settled. Default: all that is not committed. */
  waiting?(end: number): number
  /** Handler calls that run. */
  inFlight(): number
  /** Records came after `readAgainFrom`: those that were read before, and whether new ones follow. */
  refill(again: StoredRecord[], caughtUp: boolean): void
  /** A record that lies below the position, read back. */
  passed?(record: StoredRecord): void
  /** What waits for a time of its own is due now. */
  rouse?(): void
  /** A commit would carry something: it goes together with a pressing one of another partition. */
  ripe?(): boolean
  /** The state that `progress` told last is durable. */
  committed(): void
  /** Resolves when no call of this runner runs any more. */
  idle(): Promise<void>
  /** The partition is gone: forget what waits. */
  stop(): void
}
