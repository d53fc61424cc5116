/** The SQL statements of search-pg: nearest rows by index or exactly, and how many rows there are. */

import type { SqlValue } from '#engines/relational/port.ts'
import type { EmittedFilter } from './filter.ts'
import { type Column, quoteName } from './filter-types.ts'
import { joinedAlias, type SearchTable, tableAlias } from './tables.ts'

export interface StatementParts {
  table: SearchTable
  filter: EmittedFilter | undefined
  withPayload: boolean
  withVector: boolean
}

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
export function sliceStatement(filter: EmittedFilter, sliceMs: number): string {
  const [vector, collection, id, rows] = [1, 2, 3, 4].map((n) => `$${filter.params.length + n}`)
  const inTime = `pg_catalog.clock_timestamp() < pg_catalog.statement_timestamp() + interval '${sliceMs} ms'`
  return `select ${tableAlias}.collection, ${tableAlias}.id, asked.matches,
      case when asked.matches then ${tableAlias}.embedding <=> ${vector}::vector end as distance
    from (
        select collection, id, embedding from vectors.embeddings
        where (collection, id) > (${collection}::pg_catalog.text, ${id}::pg_catalog.text)
        order by collection, id limit ${rows}::pg_catalog.int4) as ${tableAlias}
      left join vectors.metadata as ${joinedAlias} using (collection, id)
      cross join lateral (
        select case when ${inTime} then coalesce(${filter.sql}, false) end as matches offset 0) as asked
    order by ${tableAlias}.collection, ${tableAlias}.id`
}

/** The condition that is true for these rows of `embeddings`. */
export function keysFilter(keys: { collection: string; id: string }[]): EmittedFilter {
  const key = `${tableAlias}.collection, ${tableAlias}.id`
  return {
    sql: `((${key}) in (select * from unnest($1::pg_catalog.text[], $2::pg_catalog.text[])))`,
    params: [keys.map(({ collection }) => collection), keys.map(({ id }) => id)],
    columns: [],
    limited: false,
  }
}

/** How many rows there are, exactly. */
export function countStatement(table: SearchTable): string {
  return `select count(*) as eligible from ${tableOf(table)} as ${tableAlias}`
}

/**
 * How many rows the planner expects of the filter; the parameters are the filter's. Where the joined table
 * alone is enough, only that is asked: for a join by two correlated columns the planner expects too few rows.
 */
export function estimateStatement(parts: Pick<StatementParts, 'table' | 'filter'>): string {
  const { columns = [], sql } = parts.filter ?? {}
  const isKey = ({ name }: Column) => name === 'id' || name === 'collection'
  const joins = columns.some(({ alias }) => alias === joinedAlias)
  const alone = joins && columns.every((column) => column.alias === joinedAlias || isKey(column))
  const key = `lateral (select ${keyOf(parts.table, joinedAlias)}) as ${tableAlias}`
  const rows = alone ? `vectors.metadata as ${joinedAlias}, ${key} where ${sql}` : rowsOf(parts)
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

function rowsOf({ table, filter }: Pick<StatementParts, 'table' | 'filter'>): string {
  const joins = filter?.columns.some(({ alias }) => alias === joinedAlias) ?? false
  const own = `${tableOf(table)} as ${tableAlias}`
  // Tables of the embedded engine are all ours: each of their rows has its other half.
  const kind = filter?.limited ? 'join' : 'left join'
  const joined = `${own} ${kind} vectors.metadata as ${joinedAlias} on ${sameKey(table, joinedAlias, tableAlias)}`
  return `${joins ? joined : own}${filter === undefined ? '' : ` where ${filter.sql}`}`
}

/** Payloads and vectors are fetched for the rows of the answer alone. */
function wantedOf({ table, withPayload, withVector }: StatementParts): string {
  const one = (column: string, from: string) =>
    `(select w.${quoteName(column)} from ${from} as w where ${sameKey(table, 'w', 'nearest')} limit 1)`
  const payloads = table.payload === 'joined' ? 'vectors.metadata' : tableOf(table)
  return [
    withPayload && table.payload !== 'none' ? `, ${one('payload', payloads)} as payload` : '',
    withVector ? `, ${one(table.vector, tableOf(table))}::pg_catalog.text as vector` : '',
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
