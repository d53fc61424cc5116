/** The consumer runtime's public face: see runtime/consumer/ for the parts. */

import type { Logger } from 'pino'
import type { Registry } from 'prom-client'
import type { EventLog, StoredRecord } from '#engines/event-log/port.ts'
import type { Hold, Outcome } from '#lib/outcome.ts'
import type { Closeable } from '#lib/resource.ts'
import type { Schemas } from '#schemas/types.ts'
import type { SchemaName, Topic } from '#topics/topic.ts'
import type { PartitionReading } from './consumer/metrics.ts'
import type { Codec, Message, Publisher } from './messages.ts'

export interface CallContext {
  /** Aborts when the partition is lost or a drain runs out of time: stop, the outcome will not be committed. */
  signal: AbortSignal
  /** 1 for a record's first call, also over restarts (as far as commits tell). For a batch: of its first record. */
  attempt: number
  /** What `hold` kept with the record's attempts; as far as nothing did, the number of failed ones. */
  spent: number
  partition: number
}

export interface LaneCallContext extends CallContext {
  /** Calls `stop` when the signal would abort: for calls too many to make a signal for each. The last one counts. */
  heed(stop: () => void): void
  /** What came of a call whose handler returned null; never inside of the handler. */
  end(outcome: Outcome | Hold): void
}

interface CommonOptions<S extends SchemaName> {
  group: string
  topic: Topic<never, S>
  /** The longest a call may take, ms; past it the signal aborts and the outcome is `retry`. */
  callTimeoutMs: number
  /** Retries of a record before it is parked (outcome `retry`). */
  retriesMax: number
  backoff: { baseMs: number; maxMs: number }
  /** A member unheard for this long loses its partitions. Default 10,000. */
  sessionTimeoutMs?: number
  /**
   * False where a position may stand still for long through no fault of its record: takeovers without progress are
   * then not counted against it. Default true: a record whose handling ends the process again and again is parked.
   */
  blamesRecords?: boolean
  /** Asked, with back-off, while the group waits after `unavailable`; resolves when the engine is back. */
  probe?(engine: string): Promise<void>
  /** Called after records of a partition are settled and before their commit; must be durable when it resolves. */
  beforeCommit?(partition: number, throughOffset: number): Promise<void>
  /**
   * What a dead letter keeps of a record that is parked, for topics whose records may hold what must never be written
   * down again. Default: the record as it is. Tried again when it throws.
   */
  keptOf?(record: StoredRecord): StoredRecord | Promise<StoredRecord>
  /** Called when partitions are gained, before any record of them; may hand over the position to start from. */
  onAssigned?(
    partitions: { partition: number; committed: number | null }[],
  ): Promise<Map<number, number> | undefined>
}

/** One contiguous batch per partition in flight; an outcome for each message, in order. */
export interface BatchOptions<S extends SchemaName> extends CommonOptions<S> {
  mode: 'batch'
  batchRecordsMax: number
  batchBytesMax: number
  handle(messages: Message<Schemas[S]>[], context: CallContext): Promise<Outcome[]>
  /** Told of records that were parked, before the commit passes them (failure rows). */
  onParked?(
    messages: {
      message: Message<Schemas[S]> | null
      position: { partition: number; offset: number }
      headers: Record<string, string>
      reason: string
    }[],
  ): Promise<void>
}

/** Records of one lane run in order, lanes run side by side. */
export interface LaneOptions<S extends SchemaName> extends CommonOptions<S> {
  mode: 'lanes'
  /** Default: the record's key. */
  lane?(message: Message<Schemas[S]>): string
  /**
   * True when the key alone is the lane: then `lane` is not asked, and the record not decoded for it. `fresh` says that
   * nothing of the partition is unsettled: the moment to begin with other lanes.
   */
  keyIsLane?(key: string, fresh: boolean): boolean
  /** Calls in flight per partition. */
  concurrency: number
  /** Null: the context will hear of the outcome, which spares a promise where calls are too many for one each. */
  handle(message: Message<Schemas[S]>, context: LaneCallContext): Promise<Outcome | Hold> | null
  /**
   * Told, in order and before any later record of the partition, of up to `passedRecordsMax` records that were settled
   * before this member gained it.
   */
  passed?(message: Message<Schemas[S]>): void
}

export type ConsumerOptions<S extends SchemaName> = BatchOptions<S> | LaneOptions<S>

export interface ConsumerDependencies {
  eventLog: EventLog
  codec: Codec
  publisher: Publisher
  log: Logger
  metrics: Registry
}

export interface RunningConsumer extends Closeable {
  /** Stops fetching; what is in flight goes on. */
  pause(): void
  resume(): void
  /** For health and the command line. */
  state(): {
    partitions: number[]
    waitingFor: string | null
    inFlight: number
    stopped: { partition: number; why: string }[]
  }
  /** Drains: waits for calls in flight (at most the call time-out), commits, marks partitions released, leaves. */
  close(): Promise<void>
}

/** What lanes need beside. */
export interface LaneConsumer extends RunningConsumer {
  /** Heads of lanes that wait for a time are due now: the handler is asked again. */
  wake(partition: number): void
  /** How the partitions of this member stand; the end of the log may be a second old. */
  readings(): Promise<PartitionReading[]>
}

export { startConsumer } from './consumer/member.ts'
export type { PartitionReading } from './consumer/metrics.ts'
