/**
 * The event log: topics of partitions, records in order, groups with committed positions. A position is the offset of the next
 * record to read. Offsets (exact below 2^53) rise within a partition, not always by one: compaction leaves holes. The caller
 * chooses the partition (lib/murmur2.ts). Drivers append, fetch, commit and report assignments; waiting is runtime's.
 */

import type { Closeable } from '#lib/resource.ts'

export interface NewRecord {
  key: Buffer | null
  /** null is a tombstone on a compacted topic. */
  value: Buffer | null
  headers?: Record<string, string>
}

/**
 * A record that was read. Key, value and headers may be views of all that came with them (on Kafka an answer of up to
 * 4 MiB, or one larger batch), which lives as long as one of its records: copy records that are kept for long.
 */
export interface StoredRecord {
  partition: number
  offset: number
  /** Milliseconds since 1970, set when the record was appended. */
  timestamp: number
  key: Buffer | null
  value: Buffer | null
  headers: Record<string, string>
  /** What key and value (or more of it) weigh, in drivers that know without making them. */
  readonly bytes?: number
  /** The bytes of one header (its name is ASCII), in drivers that make the texts of `headers` late. */
  headerBytes?(name: string): Buffer | undefined
  /**
   * There is nothing to read at this offset: what the engine keeps there is its own, or was compacted away. The position
   * moves over it, so that a reader of the last real record has no lag.
   */
  readonly hidden?: true
}

export interface TopicSpec {
  name: string
  partitions: number
  /** `compact` keeps the last record of each key; `delete` keeps records for `retentionMs`. */
  cleanup: 'delete' | 'compact'
  /** Only for `delete`; null keeps records until deleteRecords. */
  retentionMs: number | null
  /** Only for `compact`: how long a tombstone stays readable. */
  tombstoneRetentionMs: number
  segmentBytes: number
  segmentMs: number
  recordBytesMax: number
}

export interface PartitionRange {
  partition: number
  /** The first offset that is kept. */
  start: number
  /** The offset that the next record will get. */
  end: number
}

/** A position outside of what the log holds. */
export interface Misplaced {
  position: number
  start: number
  end: number
}

export interface PartitionFacts {
  partition: number
  /** The broker that leads it, as `host:port (id)`; null where there are no brokers, or none leads it now. */
  leader: string | null
  /** Replicas, and those of them that have all that was acknowledged; 1 and 1 where there are no brokers. */
  replicas: number
  inSync: number
  /** On the disk of the leader; on the embedded log an estimate from some records. null: not known now. */
  bytes: number | null
}

export interface CommittedPosition {
  partition: number
  offset: number
  /** At most 4,096 bytes of UTF-8; the consumer runtime's window and bookkeeping. */
  metadata: string
}

export interface AppendOptions {
  /** The log must acknowledge within this time. Default 2,000. */
  timeoutMs?: number
  /** For records that nobody waits for: they may wait this long for others that go to the same broker. Default 0. */
  patienceMs?: number
}

/** Appends to topics and reads them. */
export interface Log {
  readonly driver: 'kafka' | 'embedded'
  /**
   * Resolves when the engine answers; throws AppError `log_unavailable` otherwise, and on the embedded driver what an
   * append would meet.
   */
  ping(timeoutMs?: number): Promise<void>
  /**
   * Appends records to one partition in this order and resolves with the offset of the first; the others follow it
   * directly. Resolved means durable (acks=all, fsync). Appends to one partition never overtake each other. A retry
   * inside never loses or re-orders records; it may store them twice. Throws AppError `log_unavailable` after
   * `timeoutMs` (default 2,000), `overloaded` when the partition's queue is full, `payload_too_large` for a record
   * above the topic's limit, `not_found` for a topic or partition that does not exist. What was refused may still be
   * stored once, but never behind what this log acknowledges later in the partition. No records at all: writes nothing,
   * resolves with the next offset. Their bytes must not change before it resolves; from then on the log does not look at
   * them any more.
   */
  append(topic: string, partition: number, records: NewRecord[], options?: AppendOptions): Promise<number>
  /**
   * Takes over the writer name `name`: whatever an earlier holder of the name appends from now on is refused, also
   * bytes of it that are still under way, in every partition where the new holder has appended. Throws AppError
   * `log_unavailable`.
   */
  fencedWriter(name: string): Promise<FencedWriter>
  /** First and next offset of every partition. */
  offsets(topic: string): Promise<PartitionRange[]>
  /** Reads all partitions, or chosen ones, without a group position. */
  tail(options: TailOptions): Promise<Tail>
}

/** Consumer groups: their members, and the positions that they commit. */
export interface Groups {
  /** Names this process among the clients of the log: its members of groups are known by it. */
  readonly clientId: string
  /** Joins a consumer group for one topic. Resolves at once; `listener` is called when partitions are gained. */
  consume(options: ConsumeOptions): Promise<GroupConsumer>
  /** Groups that have a committed position or members; throw-away groups of tails are left out. */
  listGroups(): Promise<string[]>
  groupState(group: string, topic: string): Promise<GroupState>
  /**
   * Where groups are and what their topics hold, in their order, by few requests. A group that had read all in `since`, an
   * earlier answer, may be given as it was then while its topic has nothing new. Throws `not_found`, `log_unavailable`.
   */
  groupPositions(groups: readonly GroupTopic[], since?: readonly GroupPositions[]): Promise<GroupPositions[]>
  /** Sets positions of a group without members; throws AppError `group_active` when it has some. */
  setPositions(
    group: string,
    topic: string,
    positions: { partition: number; offset: number }[],
  ): Promise<void>
  deleteGroup(group: string): Promise<void>
}

/** Topics: made, grown, described and removed. */
export interface LogAdmin {
  /** Creates a topic; false when it exists already (then nothing is changed). */
  createTopic(spec: TopicSpec): Promise<boolean>
  /** What exists, or null. Values that the engine does not report are Kafka's defaults. */
  describeTopic(name: string): Promise<TopicSpec | null>
  listTopics(): Promise<string[]>
  deleteTopic(name: string): Promise<void>
  /** Raises the number of partitions (never lowers it). Later appends may use them at once. */
  addPartitions(name: string, total: number): Promise<void>
  /** Where they are and about how much room they take. Throws AppError `not_found`, `log_unavailable`. */
  partitionFacts(topic: string): Promise<PartitionFacts[]>
  /** Drops all records below `before` for good. */
  deleteRecords(topic: string, partition: number, before: number): Promise<void>
}

/** The whole of it; a service asks for the third that it needs. */
export interface EventLog extends Log, Groups, LogAdmin, Closeable {}

/** Appends under a writer name, which closing it does not give back. */
export interface FencedWriter extends Closeable {
  /** As `append` of the log; throws AppError `fenced` for good once another one took the name over. */
  append: Log['append']
}

export interface GroupState {
  /** Members that are in the group now. */
  members: number
  /** The clients that they belong to. */
  clientIds: string[]
  /** Which client's member has which partition; one that is on its way from one to another is missing here. */
  owners: PartitionOwner[]
  /** Committed positions only: a partition without one is missing here. */
  committed: CommittedPosition[]
}

export interface PartitionOwner {
  partition: number
  clientId: string
}

export interface GroupTopic {
  group: string
  topic: string
}

export interface GroupPositions extends GroupTopic {
  /** A partition without a committed position is missing here. */
  committed: CommittedPosition[]
  ranges: PartitionRange[]
}

export interface ConsumeOptions {
  group: string
  topic: string
  /** Bytes that one fetch of a partition brings at most. Default 1 MiB (a larger single record still arrives). */
  fetchBytesMax?: number
  listener: ConsumerListener
}

export interface GainedPartition extends PartitionRange {
  committed: CommittedPosition | null
}

export interface ConsumerListener {
  /**
   * Partitions that this member gained and did not have just before. Nothing of them is delivered until the promise
   * resolves with the offset to start at for each (a partition left out stays silent until `seek`).
   */
  assigned(gained: GainedPartition[]): Promise<Map<number, number>>
  /**
   * Another member is to have these: finish or abort their work, and commit it. They are owned until the promise resolves
   * (at most for `deadlines.session.handOverMs`); then comes `lost`, and only then the next owner. A member whose session
   * ended is not asked.
   */
  revoked?(partitions: number[]): Promise<void>
  /** These are lost as of now: abort their work; commits for them answer `lost`. Kept partitions go on undisturbed. */
  lost(partitions: number[]): void
  /**
   * Records of one partition, in order, without repeats since its start offset. Must return at once: keep them and
   * `pause` the partition when the buffer is full. One fetch that is under way may still arrive after a pause.
   */
  records(partition: number, records: StoredRecord[]): void
  /**
   * The position is outside of what the log holds (expired, or beyond the end): nothing of the partition is read until
   * `seek`. Never skipped or repeated silently.
   */
  misplaced(partition: number, problem: Misplaced): void
}

export type CommitResult =
  | 'committed'
  /** Still the owner, but the group is rebalancing or the coordinator is away: commit again soon. */
  | 'again'
  /** Not the owner any more: nothing was written, and nothing ever may be. */
  | 'lost'

export interface GroupConsumer extends Closeable {
  /** The partitions owned now. */
  assignment(): number[]
  /**
   * Commits a position under the generation that is current now, without retrying under a later one. Metadata over
   * 4,096 bytes throws.
   */
  commit(partition: number, offset: number, metadata: string): Promise<CommitResult>
  pause(partition: number): void
  resume(partition: number): void
  /** Starts reading a partition that is owned at `offset`; records fetched for another position are never delivered. */
  seek(partition: number, offset: number): void
  /** False when the last heartbeat is older than the session allows: then no new call may start. */
  alive(): boolean
  /** Leaves the group at once. Idempotent. Records delivered and not committed go to the next owner. */
  close(): Promise<void>
}

export interface TailOptions {
  topic: string
  /** These alone are read; what does not exist never is. Default: all. */
  partitions?: number[]
  /** Where each partition begins. One that is added later is read whole. */
  from: 'beginning' | 'end' | ((range: PartitionRange) => number)
  /** Bytes that one fetch of a partition brings at most. Default 1 MiB (a larger single record still arrives). */
  fetchBytesMax?: number
  /** For numerous readers: nothing more is fetched before the delivered records are taken. */
  frugal?: boolean
  /**
   * Records of one partition, in order, hidden ones included. It is held back until a promise that this returns settles,
   * and `ready`, `current` and `positions` count what was taken by then. Repeats are possible after an engine's restart.
   */
  records(partition: number, records: StoredRecord[]): void | Promise<void>
  /** The position is outside of what the log holds: the tail goes on at `start`. */
  misplaced?(partition: number, problem: Misplaced): void
}

export interface Tail extends Closeable {
  /** Resolves when all is taken once that lay before the end offsets asked for at its start. */
  ready: Promise<void>
  /**
   * True when the position has reached, in every partition, an end offset that was asked for less than 1 s ago. Where
   * nobody called this or `caughtUp` for some seconds, the first answer may be false although nothing is missing.
   */
  current(): boolean
  /** As `current`, after the ends were asked for again where that is too long ago. Resolves within a second. */
  caughtUp(): Promise<boolean>
  /** Next offset to be taken, by partition. */
  positions(): Map<number, number>
}
