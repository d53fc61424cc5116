/**
 * The relational engine: PostgreSQL with pgvector. The port has no session state (no SET outside a
 * transaction, no advisory lock held across calls), because the embedded engine is a single session. Texts that come again with
 * parameters are prepared by the drivers: keep what changes out of them.
 */

import type { Closeable } from '#lib/resource.ts'

export type SqlValue =
  | string
  | number
  | bigint
  | boolean
  | null
  | Date
  | Buffer
  | Float32Array
  | SqlValue[]
  | Record<string, unknown>

export interface SqlResult<Row> {
  rows: Row[]
  /** Rows that the statement changed or returned. */
  rowCount: number
}

export interface SqlExecutor {
  /**
   * Runs one statement with $n parameters; without parameters the text may hold several, and the last one's result is
   * given. Arrays become SQL arrays: pass a jsonb array as JSON text. A Float32Array is a vector,
   * whose parameter the text must cast to it. int8 comes as number, timestamptz as Date, jsonb parsed, bytea as Buffer;
   * numeric, date, uuid and vector come as text.
   */
  query<Row = Record<string, unknown>>(text: string, params?: SqlValue[]): Promise<SqlResult<Row>>
}

/** What runs inside of a transaction. */
export interface SqlTransaction extends SqlExecutor {
  /**
   * Bulk load: `rows` go into the table's columns by binary COPY; they must not use the transaction meanwhile. Resolves with
   * the number of rows.
   */
  copy(table: string, columns: CopyColumn[], rows: Iterable<CopyValue[]>): Promise<number>
}

export interface Relational extends SqlExecutor, Closeable {
  readonly driver: 'postgres' | 'embedded'
  /**
   * Runs `work` in one transaction (READ COMMITTED) and commits when it resolves; rolls back when it throws. Inside,
   * only `tx` may be used: calling the port itself there throws (it would wait for ever on the embedded engine).
   */
  transaction<T>(work: (tx: SqlTransaction) => Promise<T>): Promise<T>
  /**
   * Calls `listener` for each NOTIFY on a channel until the returned function is called. Signals may be missed: poll
   * as well. After a lost connection it is called once, with an empty payload.
   */
  listen(channel: string, listener: (payload: string) => void): Promise<() => Promise<void>>
  /** Resolves when the engine answers; throws AppError `relational_engine_unavailable` otherwise. */
  ping(timeoutMs?: number): Promise<void>
}

export type CopyType = 'text' | 'timestamptz' | 'jsonb' | 'text[]' | 'vector'
export interface CopyColumn {
  name: string
  type: CopyType
}
export type CopyValue = string | null | Date | Float32Array | string[] | Record<string, unknown>

/**
 * SQLSTATE of a statement's fault, if `error` is one. Connection faults are AppError `relational_engine_unavailable`.
 */
export function sqlState(error: unknown): string | undefined {
  const code = (error as { code?: unknown } | null)?.code
  return typeof code === 'string' && /^[0-9A-Z]{5}$/.test(code) ? code : undefined
}
