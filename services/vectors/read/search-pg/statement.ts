/**
 * The SQL statements of search-pg: nearest rows by index or exactly, and how many rows there are; and the search that takes
 * several statements. None of them sees a row that has expired.
 */

import type { SqlResult, SqlValue } from '#engines/relational/port.ts'
import { type EmittedFilter, withTimeLimit } from './filter.ts'
import { type Column, quoteName } from './filter-types.ts'
import { joinedAlias, type SearchTable, tableAlias } from './tables.ts'

export interface StatementParts {
  table: SearchTable
  filter: EmittedFilter | undefined
  withPayload: boolean
  withVector: boolean
}

type Parts = Pick<StatementParts, 'table' | 'filter'>

/** The filter's parameters come first: the vector and the limit follow them. */
export function parametersOf(
  filter: EmittedFilter | undefined,
  vector: Float32Array,
  limit: number,
): SqlValue[] {
  return [...(filter?.params ?? []), vector, limit]
}

/**
 * Scans the vector index in its order, until the limit and all rows as near as the last one are found, or the engine's
 * limit of scanned rows is reached. Without such an index it is exact.
 */
export function indexedStatement(parts: StatementParts): string {
  const { table } = parts
  return `with nearest as (
      select ${keyOf(table, tableAlias)}, ${distanceOf(parts)} as distance
      from ${rowsOf(parts)}
      order by ${distanceOf(parts)} fetch first (${limitOf(parts)}) rows with ties)
    select nearest.*${wantedOf(parts)} from nearest order by ${orderOf(table)} limit ${limitOf(parts)}`
}

/** Measures and counts every row that matches the filter. */
export function exactStatement(parts: StatementParts): string {
  const { table } = parts
  return `with eligible as materialized (
      select ${keyOf(table, tableAlias)}, ${distanceOf(parts)} as distance from ${rowsOf(parts)}),
    nearest as (
      select * from eligible order by ${orderOf(table)} limit ${limitOf(parts)})
    select nearest.*${wantedOf(parts)}, (select count(*) from eligible) as eligible
    from nearest order by ${orderOf(table)}`
}

/**
 * The next rows of `embeddings` in the order of their keys, of which the condition is asked until `sliceMs` are over:
 * where `matches` is null it was not. The parameters are the filter's, the vector, the key to begin behind, and how
 * many rows to look at.
 */
function sliceStatement(filter: EmittedFilter, sliceMs: number): string {
  const [vector, collection, id, rows] = [1, 2, 3, 4].map((n) => `$${filter.params.length + n}`)
  const inTime = `pg_catalog.clock_timestamp() < pg_catalog.statement_timestamp() + interval '${sliceMs} ms'`
  return `select ${tableAlias}.collection, ${tableAlias}.id, asked.matches,
      case when asked.matches then ${tableAlias}.embedding <=> ${vector}::vector end as distance
    from (
        select collection, id, embedding from vectors.embeddings as row
        where (collection, id) > (${collection}::pg_catalog.text, ${id}::pg_catalog.text) and ${lastingKey('row')}
        order by collection, id limit ${rows}::pg_catalog.int4) as ${tableAlias}
      left join vectors.metadata as ${joinedAlias} using (collection, id)
      cross join lateral (
        select case when ${inTime} then coalesce(${filter.sql}, false) end as matches offset 0) as asked
    order by ${tableAlias}.collection, ${tableAlias}.id`
}

/** The condition that is true for these rows of `embeddings`. */
export function keysFilter(keys: Key[]): EmittedFilter {
  const key = `${tableAlias}.collection, ${tableAlias}.id`
  return {
    sql: `((${key}) in (select * from unnest($1::pg_catalog.text[], $2::pg_catalog.text[])))`,
    params: [keys.map(({ collection }) => collection), keys.map(({ id }) => id)],
    columns: [],
    limited: false,
  }
}

/** The condition, of which rows of these collections are left out. */
export function withoutCollections(
  stored: readonly string[],
  filter: EmittedFilter | undefined,
): EmittedFilter {
  const params = [...(filter?.params ?? []), [...stored]]
  const sql = `${tableAlias}.collection <> all($${params.length}::pg_catalog.text[])`
  return {
    sql: filter === undefined ? `(${sql})` : `(${sql} and ${filter.sql})`,
    params,
    columns: filter?.columns ?? [],
    limited: filter?.limited ?? false,
  }
}

/** How many rows there are, exactly. */
export function countStatement(table: SearchTable): string {
  return `select count(*) as eligible from ${rowsOf({ table, filter: undefined })}`
}

/**
 * How many rows the planner expects of the filter; the parameters are the filter's. Where the joined table
 * alone is enough, only that is asked: for a join by two correlated columns the planner expects too few rows.
 */
export function estimateStatement(parts: Parts): string {
  const { columns = [], sql } = parts.filter ?? {}
  const isKey = ({ name }: Column) => name === 'id' || name === 'collection'
  const joins = columns.some(({ alias }) => alias === joinedAlias)
  const alone = joins && columns.every((column) => column.alias === joinedAlias || isKey(column))
  const key = `lateral (select ${keyOf(parts.table, joinedAlias)}) as ${tableAlias}`
  const lasting = parts.table.expires ? ` and ${lastingRow}` : ''
  const rows = alone
    ? `vectors.metadata as ${joinedAlias}, ${key} where ${sql}${lasting}`
    : rowsOf(parts, expectedKey)
  return `explain (format json) select 1 from ${rows}`
}

function distanceOf({ table, filter }: StatementParts): string {
  return `${tableAlias}.${quoteName(table.vector)} <=> $${paramsIn(filter) + 1}::vector`
}

function limitOf({ filter }: StatementParts): string {
  return `$${paramsIn(filter) + 2}::pg_catalog.int4`
}

function paramsIn(filter: EmittedFilter | undefined): number {
  return filter?.params.length ?? 0
}

function rowsOf({ table, filter }: Parts, lasting = lastingKey): string {
  const joins = filter?.columns.some(({ alias }) => alias === joinedAlias) ?? false
  const own = `${tableOf(table)} as ${tableAlias}`
  // Tables of the embedded engine are all ours: each of their rows has its other half.
  const kind = filter?.limited ? 'join' : 'left join'
  const joined = `${own} ${kind} vectors.metadata as ${joinedAlias} on ${sameKey(table, joinedAlias, tableAlias)}`
  const shown = table.expires ? [joins ? lastingRow : lasting(tableAlias)] : []
  const conditions = [...(filter ? [filter.sql] : []), ...shown]
  return `${joins ? joined : own}${conditions.length === 0 ? '' : ` where ${conditions.join(' and ')}`}`
}

/** Where the table that says when rows expire is joined anyway. */
const lastingRow = `(${joinedAlias}.expires_at is null or ${joinedAlias}.expires_at > pg_catalog.now())`

/**
 * The row of `embeddings` has not expired. The keys of those that have are read once, from an index: they are few, until the
 * platform deletes them, so that a search that needs nothing else of `metadata` does not join it.
 */
function lastingKey(alias: string): string {
  return `(${alias}.collection, ${alias}.id) not in (
    select gone.collection, gone.id from vectors.metadata as gone where gone.expires_at <= pg_catalog.now())`
}

/** The same for statements that are planned only: of `not in` the planner assumes that it leaves half of the rows. */
function expectedKey(alias: string): string {
  return `not exists (select from vectors.metadata as gone where gone.expires_at <= pg_catalog.now()
    and gone.collection = ${alias}.collection and gone.id = ${alias}.id)`
}

/** Payloads and vectors are fetched for the rows of the answer alone. */
function wantedOf({ table, withPayload, withVector }: StatementParts): string {
  const one = (column: string, from: string) =>
    `(select w.${quoteName(column)} from ${from} as w where ${sameKey(table, 'w', 'nearest')} limit 1)`
  const payloads = table.payload === 'joined' ? 'vectors.metadata' : tableOf(table)
  return [
    withPayload && table.payload !== 'none' ? `, ${one('payload', payloads)} as payload` : '',
    withVector ? `, ${one(table.vector, tableOf(table))}::pg_catalog.text as vector` : '',
    table.expires ? `, ${one('expires_at', 'vectors.metadata')} as expires_at` : '',
  ].join('')
}

function keyOf(table: SearchTable, alias: string): string {
  return table.hasCollection ? `${alias}.collection, ${alias}.id` : `${alias}.id`
}

function sameKey(table: SearchTable, left: string, right: string): string {
  const names = table.hasCollection ? ['id', 'collection'] : ['id']
  return names.map((name) => `${left}.${name} = ${right}.${name}`).join(' and ')
}

/** Ties by id, code point by code point. */
function orderOf(table: SearchTable): string {
  const names = table.hasCollection ? ['id', 'collection'] : ['id']
  return ['distance', ...names.map((name) => `${name}::pg_catalog.text collate "C"`)].join(', ')
}

function tableOf(table: SearchTable): string {
  return `vectors.${quoteName(table.name)}`
}

/** A slice asks no further row after this time. */
const sliceMs = 6
/** A slice in which a single row takes longer than this ends the search. */
const rowMs = 250
const rowsMin = 8
const rowsMax = 500

interface Key {
  collection: string
  id: string
}

interface SliceRow extends Key {
  /** null: the row was not asked. */
  matches: boolean | null
  distance: number | null
}

type Match = Key & { distance: number }

/**
 * Searches under a condition that takes long, on an engine that cannot end a statement: some rows at a time, so that
 * others get their turns in between. It finds what one statement finds, when no row changes meanwhile. `read` runs one slice, when it is its
 * turn. Resolves with undefined past `endAt` (performance.now).
 */
export async function nearestKeys(
  read: (text: string, params: SqlValue[]) => Promise<SqlResult<SliceRow>>,
  query: { filter: EmittedFilter; vector: Float32Array; limit: number },
  endAt: number,
): Promise<{ keys: Key[]; eligible: number } | undefined> {
  const filter = withTimeLimit(query.filter, rowMs)
  const text = sliceStatement(filter, sliceMs)
  let nearest: Match[] = []
  let eligible = 0
  let behind: Key = { collection: '', id: '' }
  let size = rowsMin
  while (performance.now() < endAt) {
    const { rows } = await read(text, [...filter.params, query.vector, behind.collection, behind.id, size])
    const missed = rows.findIndex(({ matches }) => matches === null)
    const asked = missed < 0 ? rows : rows.slice(0, missed)
    const matches = asked.filter((row) => row.matches) as Match[]
    eligible += matches.length
    nearest = [...nearest, ...matches].sort(nearerFirst).slice(0, query.limit)
    if (missed < 0 && rows.length < size) return { keys: nearest, eligible }
    behind = asked.at(-1) ?? behind
    size = missed < 0 ? Math.min(size * 2, rowsMax) : Math.max(asked.length, Math.ceil(size / 2), rowsMin)
  }
  return undefined
}

/** Ties by id, then by collection, code point by code point. */
function nearerFirst(a: Match, b: Match): number {
  return a.distance - b.distance || compareText(a.id, b.id) || compareText(a.collection, b.collection)
}

/** The order of UTF-8 bytes is that of code points. */
function compareText(a: string, b: string): number {
  return a === b ? 0 : Buffer.compare(Buffer.from(a), Buffer.from(b))
}
