/** Finds the rows of the relational mirror that are nearest to a vector and match a filter_sql. */

import type { Mirror, ReadOptions } from '#engines/relational/mirror/port.ts'
import type { SqlValue } from '#engines/relational/port.ts'
import { deadlines } from '#lib/deadlines.ts'
import { createEligibleRows } from './eligible.ts'
import { isChangedTable, problemOf } from './faults.ts'
import { loadFilterCompiler } from './filter.ts'
import { exactStatement, indexedStatement, parametersOf, type StatementParts } from './statement.ts'
import { createSearchTables } from './tables.ts'

export interface PgQuery {
  table: string
  vector: Float32Array
  limit: number
  filter?: string
  withPayload: boolean
  withVector: boolean
}

export interface PgHit {
  /** Absent in tables that have no such column. */
  collection?: string
  id: string
  /** 1 − cosine distance. */
  score: number
  payload?: Record<string, unknown>
  /** float32 values. */
  vector?: number[]
}

export interface PgFound {
  /** By falling score, ties by id; all eligible rows when there are no more than the limit. */
  hits: PgHit[]
  /** Rows that match the filter; may be an estimate or up to 5 s old. */
  eligible: number
}

export interface PgSearch {
  /**
   * Throws AppError `table_not_found`, `invalid_filter`, `query_timeout` or `relational_engine_unavailable`. `ready` is
   * awaited after the checks and before the search.
   */
  search(query: PgQuery, ready?: () => Promise<void>): Promise<PgFound>
}

const timeoutMs = deadlines.request.searchPgMs
/** The same for all reads, so that the settings of a connection never change. Times without a zone are UTC. */
const everywhere = { TimeZone: 'UTC', DateStyle: 'ISO, MDY' }
export const serverSettings = {
  ...everywhere,
  'hnsw.ef_search': '128',
  // The scan goes on, in the order of distance, until enough rows match the filter.
  'hnsw.iterative_scan': 'strict_order',
  'hnsw.max_scan_tuples': '20000',
  // As much of work_mem as 1,000 hits need, so that it does not end such a search early.
  'hnsw.scan_mem_multiplier': '4',
  jit: 'off',
}

interface Row {
  collection?: string
  id: string | number
  distance: number | null
  payload?: Record<string, unknown> | null
  vector?: string
  eligible?: number
}

/** Loads the parser of filters. */
export async function loadPgSearch(mirror: Pick<Mirror, 'driver' | 'read'>): Promise<PgSearch> {
  const options: ReadOptions = {
    timeoutMs,
    settings: mirror.driver === 'postgres' ? serverSettings : everywhere,
  }
  const read = <R>(text: string, params: SqlValue[]) => mirror.read<R>(text, params, options)
  const compile = await loadFilterCompiler()
  const tables = createSearchTables(read)
  const eligibleRows = createEligibleRows(read)

  async function exact(parts: StatementParts, params: SqlValue[]): Promise<PgFound> {
    const { rows } = await read<Row>(exactStatement(parts), params)
    return { hits: hitsOf(rows), eligible: rows[0]?.eligible ?? 0 }
  }
  async function indexed(parts: StatementParts, params: SqlValue[], limit: number): Promise<PgFound> {
    const [{ rows }, expected] = await Promise.all([
      read<Row>(indexedStatement(parts), params),
      eligibleRows(parts),
    ])
    // Either there are no more rows, or the scan of the index ended at its limit: only an exact search can say.
    if (rows.length < limit) return exact(parts, params)
    return { hits: hitsOf(rows), eligible: Math.max(expected, rows.length) }
  }
  async function prepared({
    table: name,
    filter,
    withPayload,
    withVector,
  }: PgQuery): Promise<StatementParts> {
    const table = await tables.get(name)
    const emitted = filter === undefined ? undefined : compile(filter, table.columns)
    return { table, filter: emitted, withPayload, withVector }
  }
  async function run(query: PgQuery, ready: (() => Promise<void>) | undefined): Promise<PgFound> {
    const parts = await prepared(query)
    await ready?.()
    const params = parametersOf(parts.filter, query.vector, query.limit)
    return mirror.driver === 'postgres' ? indexed(parts, params, query.limit) : exact(parts, params)
  }

  return {
    async search(query, ready) {
      try {
        return await run(query, ready).catch((error: unknown) => {
          if (!isChangedTable(error)) throw error
          tables.forget()
          return run(query, ready)
        })
      } catch (error) {
        throw problemOf(error, query.filter !== undefined, timeoutMs)
      }
    },
  }
}

function hitsOf(rows: Row[]): PgHit[] {
  return rows.flatMap(({ collection, id, distance, payload, vector }) => {
    // Only in tables of others: no vector, or the zero vector, which has no cosine distance.
    if (distance === null || Number.isNaN(distance)) return []
    return [
      {
        ...(collection === undefined ? {} : { collection }),
        id: String(id),
        score: 1 - distance,
        ...(payload === undefined ? {} : { payload: payload ?? {} }),
        ...(vector === undefined
          ? {}
          : { vector: Array.from(Float32Array.from(JSON.parse(vector) as number[])) }),
      },
    ]
  })
}
