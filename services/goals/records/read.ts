/** Reads notes and goals: one by its id, or a page of them, the newest first. */

import type { SqlExecutor, SqlValue } from '#engines/relational/port.ts'
import { AppError } from '#lib/errors.ts'
import { columnsOf, type RecordKind } from './kind.ts'

/** Column → the value that rows must have; what is undefined does not count. */
export type Filters = Readonly<Record<string, SqlValue | undefined>>

export interface PageQuery {
  filters: Filters
  limit: number
  /** Only rows made before this id. */
  before?: number
  /** The oldest first, as a thread is read; `before` is then the id behind which the page begins. */
  oldestFirst?: boolean
}

export interface Page<Row> {
  rows: Row[]
  /** `before` of the next page; undefined at the end. */
  next?: number
}

/** Throws AppError `not_found`. */
export async function readRecord<Row>(executor: SqlExecutor, kind: RecordKind, id: number): Promise<Row> {
  const { rows } = await executor.query<Row>(`select ${columnsOf(kind)} from ${kind.table} where id = $1`, [
    id,
  ])
  const row = rows[0]
  if (!row) throw notThere(kind, id)
  return row
}

export function notThere(kind: RecordKind, id: number | string): AppError {
  const shown = typeof id === 'number' ? id : id.slice(0, 32).toWellFormed()
  return new AppError('not_found', `There is no ${kind.name} ${shown}.`)
}

/** By ids: rows that come or go meanwhile change nothing about the others. */
export async function listRecords<Row extends { id: number }>(
  executor: SqlExecutor,
  kind: RecordKind,
  { filters, limit, before, oldestFirst = false }: PageQuery,
): Promise<Page<Row>> {
  const params: SqlValue[] = [limit + 1]
  const conditions: string[] = []
  if (before !== undefined) conditions.push(`id ${oldestFirst ? '>' : '<'} $${params.push(before)}`)
  for (const [column, value] of Object.entries(filters)) {
    if (value !== undefined) conditions.push(`${column} = $${params.push(value)}`)
  }
  const { rows } = await executor.query<Row>(
    `select ${columnsOf(kind)} from ${kind.table}
     ${conditions.length === 0 ? '' : `where ${conditions.join(' and ')}`}
     order by id ${oldestFirst ? 'asc' : 'desc'} limit $1`,
    params,
  )
  if (rows.length <= limit) return { rows }
  const page = rows.slice(0, limit)
  return { rows: page, next: page.at(-1)!.id }
}

/** Status → number of rows. */
export async function countByStatus(
  executor: SqlExecutor,
  kind: RecordKind,
): Promise<Record<string, number>> {
  const { rows } = await executor.query<{ status: string; count: number }>(
    `select status, count(*) as count from ${kind.table} group by status order by status`,
  )
  return Object.fromEntries(rows.map(({ status, count }) => [status, count]))
}
