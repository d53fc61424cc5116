/** What a service hands to the consumer runtime, and what it gets back. The functions are in runtime/consume/consumer.ts. */

import type { Logger } from 'pino'
import type { Registry } from 'prom-client'
import type { Groups, Log, StoredRecord } from '#engines/event-log/port.ts'
import type { BatchOutcome, LaneOutcome } from '#lib/outcome.ts'
import type { Closeable } from '#lib/resource.ts'
import type { Schemas } from '#schemas/types.ts'
import type { SchemaName, Topic } from '#topics/topic.ts'
import type { Tracing } from '../observe/tracing/tracing.ts'
import type { Codec, Message, Publisher } from '../publish/messages.ts'

export interface ConsumerDependencies {
  eventLog: Log & Groups
  codec: Codec
  publisher: Publisher
  log: Logger
  metrics: Registry
  /** With it, handlers run as spans of the traces of their records. */
  tracing?: Tracing | undefined
}

/** What a handler knows about its call. */
export interface CallContext {
  /** Aborts when the partition is lost or the call runs out of time: stop, the outcome will not be committed. */
  signal: AbortSignal
  /** As `signal`, without the time-out: one for all calls of a partition, for those that keep time by themselves. */
  lost: AbortSignal
  /** 1 for a record's first call, also over restarts (as far as commits tell). For a batch: of its first record. */
  attempt: number
  /** What the last hold kept with the record's attempts; without one, the number of failed attempts. */
  retriesUsed: number
  partition: number
}

/** What batch mode and lane mode have in common. */
export interface ConsumerOptions<S extends SchemaName> {
  group: string
  /** The group's name in metrics, asked each time: for a group that people know by another name. Default: `group`. */
  shownAs?(): string
  topic: Topic<S>
  /** The longest a call may take, ms; past it the signal aborts and the outcome is `retry` (see `engine`). */
  callTimeoutMs: number
  /**
   * For writers of an index: the engine behind the handler. A call that takes too long then says that this engine is
   * away: no attempt is counted and nothing parked.
   */
  engine?: string
  /** Retries of a record before it is parked (outcome `retry`). */
  retriesMax: number
  backoff: { baseMs: number; maxMs: number }
  /**
   * True: a record whose handling ends the process again and again is parked. False where a position may stay the same
   * for long through no fault of its record. Default: true without an `engine`.
   */
  blamesRecords?: boolean
  /** On a compacted topic: what an operator does where the group read nothing for so long that deletions may be gone. */
  adviceIfStale?: string
  /**
   * For work that may wait: after records came, further ones of all partitions are fetched together at the next of the times
   * that are this many ms apart. What comes after a rest does not wait. Default 0.
   */
  gatherMs?: number
  /**
   * Records of a partition that are fetched before they are taken. Work that lets many wait needs few of them: the others
   * stay in the log, and out of memory. Default `bufferedRecordsMax`.
   */
  aheadRecordsMax?: number
  /** Asked, with back-off, while the group waits after `unavailable`; resolves when the engine is back. */
  probe?(engine: string): Promise<void>
  /**
   * Called after records of a partition are settled and before their commit; must be durable when it resolves. A later
   * owner learns of it by `onAssigned` and goes on behind it: so the commit itself may follow later.
   */
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

/** A record that was given up. */
export interface ParkedMessage<S extends SchemaName> {
  /** null when the record cannot be decoded. */
  message: Message<Schemas[S]> | null
  position: { partition: number; offset: number }
  headers: Record<string, string>
  reason: string
}

/** Batch mode, for writers: one contiguous batch per partition in flight. */
export interface BatchOptions<S extends SchemaName> extends ConsumerOptions<S> {
  batchRecordsMax: number
  batchBytesMax: number
  /** Resolves with an outcome for each message, in order. */
  handle(messages: Message<Schemas[S]>[], context: CallContext): Promise<BatchOutcome[]>
  /** Whether somebody waits for what becomes of a message: then `beforeCommit` comes sooner. Default: nobody does. */
  isAwaited?(message: Message<Schemas[S]>): boolean
  /** Called with records that were parked, before the commit passes them (failure rows). Repeated when it rejects. */
  onParked?(parked: ParkedMessage<S>[]): Promise<void>
}

/** Lane mode, where waiting is long: records of one lane run in order, lanes run side by side. */
export interface LaneOptions<S extends SchemaName> extends ConsumerOptions<S> {
  /** Calls in flight per partition. */
  concurrency: number
  handle(message: Message<Schemas[S]>, context: CallContext): Promise<LaneOutcome>
  /** The lane of a message. Default: the record's key. */
  lane?(message: Message<Schemas[S]>): string
  /**
   * True when the key alone is the lane: then `lane` is not asked, and the record not decoded for it. `fresh` says that
   * nothing of the partition is unsettled: the moment to begin with other lanes.
   */
  keyIsLane?(key: string, fresh: boolean): boolean
  /**
   * Called, in order and before any later record of the partition, with records that were settled before this member
   * gained it: the last `settledBeforeRecordsMax` of them.
   */
  onSettledBefore?(message: Message<Schemas[S]>): void
  /** With this, heads that wait for a time can be tried sooner. */
  wakeups?: LaneWakeups
}

/** How a handler asks for heads that wait for a time to be tried now: made before the handler and the consumer. */
export class LaneWakeups {
  readonly #partitions = new Set<number>()
  #listener: ((partition: number) => void) | null = null

  /** Heads of this partition that wait for a time are tried now. Many requests of one turn of the event loop are one. */
  wake(partition: number): void {
    if (this.#partitions.size === 0) setImmediate(() => this.#deliver())
    this.#partitions.add(partition)
  }

  /** For the consumer. Before it listens no head can be waiting, so nothing is lost. */
  listen(listener: (partition: number) => void): void {
    this.#listener = listener
  }

  #deliver(): void {
    const partitions = [...this.#partitions]
    this.#partitions.clear()
    for (const partition of partitions) this.#listener?.(partition)
  }
}

/** How far a member is in one partition. */
export interface PartitionReading {
  partition: number
  lag: number | null
  /** The durable position. */
  committed: number
  /** Records that are not settled; unlike lag it leaves out those beyond the position that are. */
  waiting: number | null
  /** When the oldest of them was appended, in milliseconds; null when it is not in memory. */
  oldestAtMs: number | null
  inFlight: number
  window: number
  stopped: boolean
}

/** A member of a group that runs. */
export interface RunningConsumer extends Closeable {
  /** Stops fetching and new calls; calls in flight go on. The member keeps its partitions, and is asked for nothing but heartbeats. */
  pause(): void
  resume(): void
  /** How far this member is in its partitions; the end of the log may be a second old. */
  readings(): Promise<PartitionReading[]>
  /** For health and the command line. */
  state(): {
    partitions: number[]
    waitingFor: string | null
    inFlight: number
    stopped: { partition: number; why: string }[]
  }
  /** Drains: waits for calls in flight (2 s, then they are aborted), commits, marks partitions released, leaves. */
  close(): Promise<void>
}
