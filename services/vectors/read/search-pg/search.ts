/** Finds the rows of the relational mirror that are nearest to a vector and match a filter_sql. */

import { LRUCache } from 'lru-cache'
import type { Mirror, ReadOptions } from '#engines/relational/mirror/port.ts'
import type { SqlValue } from '#engines/relational/port.ts'
import { parseStoredName } from '#engines/vectors/collections.ts'
import { deadlines } from '#lib/deadlines.ts'
import { createTurns } from '#lib/turns.ts'
import type { Collections } from '../../collections/registry.ts'
import { createEligibleRows } from './eligible.ts'
import { isChangedTable, isOverLimit, isTimeout, problemOf, queryTimeout } from './faults.ts'
import { loadFilterCompiler, withTimeLimit } from './filter.ts'
import {
  exactStatement,
  indexedStatement,
  keysFilter,
  nearestKeys,
  parametersOf,
  type StatementParts,
  withoutCollections,
} from './statement.ts'
import { createSearchTables, type ReadRows } from './tables.ts'

export interface PgQuery {
  /** The agent that asks. Agents take turns, and one whose conditions are slow gets a small share of the engine. */
  caller: string
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
  /** In ms since 1970; absent for a row that stays. */
  expiresAt?: number
  /** float32 values. */
  vector?: number[]
}

export interface PgFound {
  /** By falling score, ties by id; all eligible rows when there are no more than the limit. */
  hits: PgHit[]
  /** Rows that match the filter; may be an estimate or up to 5 s old. */
  eligible: number
}

/**
 * How long a statement may take before it counts as slow and is run as such. The embedded engine measures all of a
 * table for everybody, so there it may take longer the larger the table is.
 */
const quickLimits = { postgres: { ms: 300, msPerMb: 0 }, embedded: { ms: 250, msPerMb: 1 } }
/** An agent had a slow condition: so long its conditions are run as slow ones at once. */
const waryMs = { postgres: 15_000, embedded: 10_000 }
/** And so long its conditions are tried one at a time, so that the first slow one spares the others. */
const suspectMs = 3_600_000
const suspectsMax = 1_000
const triesMax = 1_000
/** The same for all reads, so that the settings of a connection never change. Times without a zone are UTC. */
const everywhere = {
  TimeZone: 'UTC',
  DateStyle: 'ISO, MDY',
  // Keys of expired rows are looked up in a hash table, also when a million points expire at once.
  hash_mem_multiplier: '64',
}
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
/** A slow statement keeps one core busy, not more. */
const slowSettings = { ...serverSettings, max_parallel_workers_per_gather: '0' }

interface Row {
  collection?: string
  id: string | number
  distance: number | null
  payload?: Record<string, unknown> | null
  vector?: string
  expires_at?: Date | null
  eligible?: number
}

export type PgSearch = Awaited<ReturnType<typeof loadPgSearch>>

/** Loads the parser of filters. A search ends after `timeoutMs`. */
export async function loadPgSearch(
  mirror: Pick<Mirror, 'driver' | 'read'>,
  quick: QuickLimit = quickLimits[mirror.driver],
  timeoutMs: number = deadlines.request.searchPgMs,
  collections: Pick<Collections, 'beyondTheFour'> = theFour,
) {
  const settings = mirror.driver === 'postgres' ? serverSettings : everywhere
  const readWith =
    (options: () => ReadOptions): ReadRows =>
    (text, params) =>
      mirror.read(text, params, { settings, ...options() })
  const compile = await loadFilterCompiler(mirror.driver === 'embedded')
  const tables = createSearchTables(readWith(() => ({ timeoutMs })))
  const createSearches = mirror.driver === 'postgres' ? createServerSearch : createEmbeddedSearch
  const searches = createSearches(readWith, quick)
  /** Agents that had a slow condition, and until when theirs are run as slow ones. */
  const suspects = new LRUCache<string, number>({ max: suspectsMax, ttl: suspectMs })
  const tries = createTurns({ atOnce: triesMax, perCaller: 1, waitingMax: triesMax })

  async function prepared({ table: name, filter, ...query }: PgQuery): Promise<StatementParts> {
    const table = await tables.get(name)
    const own = table.hasStoredNames ? await collections.beyondTheFour() : undefined
    const emitted = filter === undefined ? undefined : compile(filter, table.columns, own?.byName)
    const shown = own && own.dying.length > 0 ? withoutCollections(own.dying, emitted) : emitted
    return { table, filter: shown, withPayload: query.withPayload, withVector: query.withVector }
  }
  async function run(query: PgQuery, ready: (() => Promise<void>) | undefined): Promise<PgFound> {
    const parts = await prepared(query)
    await ready?.()
    const endAt = performance.now() + timeoutMs
    if (!searches.canBeSlow(parts)) return searches.quickly(parts, query, endAt)
    const attempt = () => tryQuickly(parts, query, endAt)
    const alone = parts.filter !== undefined && (mirror.driver === 'embedded' || suspects.has(query.caller))
    const late = () => queryTimeout(timeoutMs)
    const first = await (alone ? tries.take(query.caller, leftUntil(endAt), late, attempt) : attempt())
    const found = first ?? (await searches.slowly(parts, query, endAt))
    if (found === undefined) throw late()
    return found
  }
  async function tryQuickly(parts: StatementParts, query: PgQuery, endAt: number) {
    const { caller } = query
    if (parts.filter && (suspects.get(caller) ?? 0) > performance.now()) return undefined
    try {
      return await searches.quickly(parts, query, endAt)
    } catch (error) {
      if (!isTimeout(error) && !isOverLimit(error)) throw error
      if (parts.filter) suspects.set(caller, performance.now() + waryMs[mirror.driver])
      return undefined
    }
  }

  return {
    /**
     * Throws AppError `table_not_found`, `invalid_filter`, `query_timeout` or `relational_engine_unavailable`. `ready` is
     * awaited after the checks and before the search.
     */
    async search(query: PgQuery, ready?: () => Promise<void>): Promise<PgFound> {
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

const theFour: Pick<Collections, 'beyondTheFour'> = { beyondTheFour: () => undefined }

type QuickLimit = (typeof quickLimits)['embedded']

/** How one kind of engine searches. `endAt`: by then (performance.now) the answer is there or a time-out. */
interface Searches {
  /** Whether `quickly` may give up on it: with a time-out of less than the request's, or as over its limit. */
  canBeSlow(parts: StatementParts): boolean
  quickly(parts: StatementParts, query: PgQuery, endAt: number): Promise<PgFound>
  /** As often and as much as others have no use for the engine. Undefined when the time is over. */
  slowly(parts: StatementParts, query: PgQuery, endAt: number): Promise<PgFound | undefined>
}

/** The options are asked for at each read: what is left of the time may be less then. */
type ReadWith = (options: () => ReadOptions) => ReadRows

const leftUntil = (endAt: number) => Math.max(1, Math.ceil(endAt - performance.now()))

/** By the vector index; the server ends what takes too long. */
function createServerSearch(readWith: ReadWith, { ms: quickMs }: QuickLimit): Searches {
  const eligibleRows = createEligibleRows()

  async function indexed(
    parts: StatementParts,
    query: PgQuery,
    { read, oneByOne }: { read: ReadRows; oneByOne: boolean },
  ): Promise<PgFound> {
    const params = parametersOf(parts.filter, query.vector, query.limit)
    const expected = oneByOne ? undefined : eligibleRows(parts, read)
    const [{ rows }, counted] = await Promise.all([read<Row>(indexedStatement(parts), params), expected])
    // Either there are no more rows, or the scan of the index ended at its limit: only an exact search can say.
    if (rows.length < query.limit) return exact(parts, params, read)
    const eligible = counted ?? (await eligibleRows(parts, read))
    return { hits: hitsOf(rows), eligible: Math.max(eligible, rows.length) }
  }
  return {
    canBeSlow: () => true,
    quickly(parts, query, endAt) {
      const options = { caller: query.caller, timeoutMs: quickMs, waitMs: leftUntil(endAt) }
      return indexed(parts, query, { read: readWith(() => options), oneByOne: false })
    },
    slowly(parts, query, endAt) {
      const options = { caller: query.caller, slow: true, settings: slowSettings }
      const read = readWith(() => ({ ...options, timeoutMs: leftUntil(endAt) }))
      // The planner tries a slow condition on a sample of the rows, so the estimate is slow, too.
      return indexed(parts, query, { read, oneByOne: true })
    },
  }
}

/** All rows are measured; a condition that takes too long ends by itself, and is then asked of some rows at a time. */
function createEmbeddedSearch(readWith: ReadWith, quick: QuickLimit): Searches {
  const quickRead = ({ caller }: PgQuery, endAt: number) =>
    readWith(() => ({ caller, timeoutMs: leftUntil(endAt) }))

  return {
    canBeSlow: ({ filter }) => filter?.limited === true,
    async quickly(parts, query, endAt) {
      const ms = quick.ms + (parts.table.bytes / 2 ** 20) * quick.msPerMb
      const filter = parts.filter?.limited ? withTimeLimit(parts.filter, ms) : parts.filter
      const params = parametersOf(filter, query.vector, query.limit)
      return exact({ ...parts, ...(filter && { filter }) }, params, quickRead(query, endAt))
    },
    async slowly(parts, query, endAt) {
      const { caller, vector, limit } = query
      const read = readWith(() => ({ caller, timeoutMs: leftUntil(endAt), slow: true }))
      const found = await nearestKeys(read, { filter: parts.filter!, vector, limit }, endAt)
      if (found === undefined) return undefined
      const { keys, eligible } = found
      if (keys.length === 0) return { hits: [], eligible }
      const filter = keysFilter(keys)
      const params = parametersOf(filter, vector, limit)
      const { hits } = await exact({ ...parts, filter }, params, quickRead(query, endAt))
      return { hits, eligible }
    },
  }
}

async function exact(parts: StatementParts, params: SqlValue[], read: ReadRows): Promise<PgFound> {
  const { rows } = await read<Row>(exactStatement(parts), params)
  return { hits: hitsOf(rows), eligible: rows[0]?.eligible ?? 0 }
}

function hitsOf(rows: Row[]): PgHit[] {
  return rows.flatMap(({ collection, id, distance, payload, vector, expires_at: expiresAt }) => {
    // Only in tables of others: no vector, or the zero vector, which has no cosine distance.
    if (distance === null || Number.isNaN(distance)) return []
    return [
      {
        ...(collection === undefined ? {} : { collection: parseStoredName(collection)?.name ?? collection }),
        id: String(id),
        score: 1 - distance,
        ...(payload === undefined ? {} : { payload: payload ?? {} }),
        ...(expiresAt && { expiresAt: expiresAt.getTime() }),
        ...(vector === undefined
          ? {}
          : { vector: Array.from(Float32Array.from(JSON.parse(vector) as number[])) }),
      },
    ]
  })
}
