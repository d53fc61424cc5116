/**
 * The relational mirror: the points of every collection as rows of `vectors.embeddings` and `vectors.metadata`. It
 * never slows the control plane down: on a server it has pools of its own, embedded a cluster and a thread of its
 * own.
 */

import type { Closeable } from '#lib/resource.ts'
import type { Relational, SqlResult, SqlValue } from '../port.ts'

/** One statement of a reader. */
export interface ReadOptions {
  /** The statement ends after this time with SQLSTATE 57014; a caller waits no longer, whatever the engine does. */
  timeoutMs: number
  /** On a server it may first wait for its turn for this long; by default as long as it may run. */
  waitMs?: number
  /**
   * Settings of the session that the statement runs under, for example `{ 'hnsw.ef_search': '128' }`. Keep them few and
   * the same: a connection keeps those of its last read, and other ones cost it one statement more.
   */
  settings?: Record<string, string>
  /** Who asks. Callers take turns: what one asks for does not wait behind all that another has asked for before. */
  caller?: string
  /**
   * The statement may be slow. One of a caller runs at a time, and all of them together get a small part of the
   * engine: a few connections of a server; of the embedded engine a turn between two other reads, and the longer one
   * took, the longer its caller rests.
   */
  slow?: boolean
}

/** One point as a row of the tables. */
export interface MirrorRow {
  embedding: Float32Array
  title: string | null
  status: string | null
  tags: string[] | null
  mindPath: string | null
  updatedAt: Date | null
  /** From then on no read shows the point; null for one that stays. */
  expiresAt: Date | null
  payload: Record<string, unknown>
}

export interface MirrorOperation {
  partition: number
  offset: number
  collection: string
  id: string
  /** null deletes the point. */
  row: MirrorRow | null
}

/** How far a partition's records are in the tables. */
export interface MirrorPosition {
  partition: number
  /** The first offset that is not applied yet. */
  next: number
}

/** The records of one epoch of the log's topic that go into one generation. */
export interface MirrorTarget {
  generation: number
  epoch: number
}

/** Everything throws AppError `relational_engine_unavailable` while the engine is away. */
export interface Mirror extends Closeable {
  readonly driver: 'postgres' | 'embedded'

  /**
   * `closed`, `absent`: an embedded engine that nothing has used yet, so that it takes no memory; its tables are there,
   * or will be made fresh when it is opened.
   */
  state(): 'open' | 'closed' | 'absent'
  /** Brings tables, indexes, the reading role and its grants up to date. Every other call does it by itself. */
  prepare(): Promise<void>

  /**
   * One read-only statement as the role that can read the tables of schema `vectors` and nothing else. On a server it
   * is one round trip. The faults of the statement itself carry their SQLSTATE (`sqlState` of port.ts), 57014 for the
   * time-out, waiting for a turn included. The embedded engine cannot end a statement: one that may be slow must end by
   * itself.
   */
  read<Row = Record<string, unknown>>(
    text: string,
    params: SqlValue[],
    options: ReadOptions,
  ): Promise<SqlResult<Row>>

  /** The engine itself, with every right: for writers, tests and benches, never for what a caller sent. */
  readonly write: Relational

  /**
   * Applies operations in one transaction, the positions with them: per point the last operation counts. What is below a
   * position that the tables hold, or was written before, or belongs to an epoch that a newer one has followed, is left
   * out, so that nothing old ever comes back; so operations of a partition come in the order of the log. A position never
   * goes back either. All resolve together or nothing is applied.
   */
  apply(target: MirrorTarget, operations: MirrorOperation[], positions: MirrorPosition[]): Promise<void>
  /** The positions that the tables hold; a partition that has none was never written. */
  positions(target: MirrorTarget): Promise<MirrorPosition[]>

  /** The generation that reads see; 0 while no writer has taken the fresh tables into use (`adoptGeneration`). */
  liveGeneration(): Promise<number>
  /** Gives fresh tables their number; nothing when they have one. Resolves with the number they have. */
  adoptGeneration(generation: number): Promise<number>
  /** Makes empty tables of a generation that is not live; half-filled ones of that number are emptied. */
  createGeneration(generation: number): Promise<void>
  /** Builds what reads will need of a filled generation, its index above all; may take long. It may be repeated. */
  finishGeneration(generation: number): Promise<void>
  /** Replaces the live generation by another one, at once for every reader, and drops the old one. */
  promoteGeneration(generation: number): Promise<void>
  dropGeneration(generation: number): Promise<void>

  ping(timeoutMs?: number): Promise<void>
}
