/**
 * Which tables search-pg may search, read from the database's catalogue: kept for a minute, read again when one is
 * missing.
 */

import type { SqlResult, SqlValue } from '#engines/relational/port.ts'
import { vectorDimension } from '#engines/vectors/collections.ts'
import { AppError } from '#lib/errors.ts'
import type { Column } from './filter-types.ts'

export interface SearchTable {
  name: string
  /** Column of the vectors. */
  vector: string
  /** Points carry the name of their collection. */
  hasCollection: boolean
  /** The table of the platform: its collections have the names that they are stored under. */
  hasStoredNames: boolean
  /** Its rows may expire: the joined table says when. */
  expires: boolean
  /** Where payloads are: in the table joined to it, in its own column, or nowhere. */
  payload: 'joined' | 'own' | 'none'
  /** What a filter may name; the same object for as long as the table stays as it is. */
  columns: ReadonlyMap<string, Column>
  /** Size of the table on disk, at the last reading. */
  bytes: number
}

/** The table of the platform; more columns of its rows are in `metadata` under the same key. */
const joinedTable = { name: 'embeddings', to: 'metadata' }
export const tableAlias = 'p'
export const joinedAlias = 'm'
const keptMs = 60_000
/** The least time between two readings because of unknown names. */
const missPauseMs = 2_000
const namesShownMax = 20

/** A vector's dimension is its type's modifier. Names of types are the same in every version. */
const catalogue = `select class.relname as "table", attribute.attname as name, type.typname as type,
    attribute.atttypmod as modifier, pg_catalog.pg_relation_size(class.oid) as bytes
  from pg_catalog.pg_class as class
    join pg_catalog.pg_namespace as namespace on namespace.oid = class.relnamespace
    join pg_catalog.pg_attribute as attribute on attribute.attrelid = class.oid
    join pg_catalog.pg_type as type on type.oid = attribute.atttypid
  where namespace.nspname = 'vectors' and class.relkind in ('r', 'p', 'v', 'm') and attribute.attnum > 0
    and not attribute.attisdropped and pg_catalog.has_table_privilege(class.oid, 'select')
  order by class.relname, attribute.attnum`

interface CatalogueRow {
  table: string
  name: string
  type: string
  modifier: number
  bytes: number
}

type Tables = ReadonlyMap<string, SearchTable>

export function createSearchTables(read: ReadRows) {
  let kept: Tables = new Map()
  /** The rows that `kept` was made from, to find out whether anything changed. */
  let seen = ''
  let readAt = Number.NEGATIVE_INFINITY
  let reading: Promise<Tables> | undefined

  async function readCatalogue(): Promise<Tables> {
    const begun = performance.now()
    const { rows } = await read<CatalogueRow>(catalogue, [])
    const text = JSON.stringify(rows.map(({ bytes, ...column }) => column))
    // Filters are compiled once for each table object, so a table that did not change must stay the same object.
    if (text !== seen) kept = tablesOf(rows)
    seen = text
    for (const { table, bytes } of rows) {
      const known = kept.get(table)
      if (known) known.bytes = bytes
    }
    readAt = begun
    return kept
  }
  function refresh(): Promise<Tables> {
    reading ??= readCatalogue().finally(() => {
      reading = undefined
    })
    return reading
  }
  return {
    /** Throws AppError `table_not_found`. */
    async get(name: string): Promise<SearchTable> {
      const age = performance.now() - readAt
      const known = kept.get(name)
      if (known && age < keptMs) return known
      if (age < missPauseMs) throw notFound(name, kept)
      const tables = await refresh()
      const found = tables.get(name)
      if (found) return found
      throw notFound(name, tables)
    },
    /** The columns are out of date: the next `get` reads again. */
    forget(): void {
      readAt = Number.NEGATIVE_INFINITY
    },
  }
}

function tablesOf(rows: CatalogueRow[]): Tables {
  const byTable = Map.groupBy(rows, (row) => row.table)
  const found = new Map<string, SearchTable>()
  for (const [name, own] of byTable) {
    const vector = own.find(({ type, modifier }) => type === 'vector' && modifier === vectorDimension)
    if (vector === undefined || !own.some((column) => column.name === 'id')) continue
    const joined = name === joinedTable.name ? (byTable.get(joinedTable.to) ?? []) : []
    found.set(name, {
      name,
      vector: vector.name,
      hasCollection: own.some((column) => column.name === 'collection'),
      hasStoredNames: name === joinedTable.name,
      expires: joined.some((column) => column.name === 'expires_at'),
      payload: payloadOf(own, joined),
      columns: new Map([...columnsOf(joined, joinedAlias), ...columnsOf(own, tableAlias)]),
      bytes: 0,
    })
  }
  return found
}

function payloadOf(own: CatalogueRow[], joined: CatalogueRow[]): SearchTable['payload'] {
  const has = (rows: CatalogueRow[]) => rows.some(({ name, type }) => name === 'payload' && type === 'jsonb')
  if (has(joined)) return 'joined'
  return has(own) ? 'own' : 'none'
}

function columnsOf(rows: CatalogueRow[], alias: string): [string, Column][] {
  return rows.map(({ name, type }) => [name, { name, type, alias }])
}

function notFound(name: string, tables: Tables): AppError {
  const cut = name.length > 64 ? `${name.slice(0, 64).toWellFormed()}…` : name
  const names = [...tables.keys()].slice(0, namesShownMax).join(', ')
  return new AppError(
    'table_not_found',
    `There is no table named ${JSON.stringify(cut)} to search: there are ${names || 'none'}.`,
  )
}

/** Runs under the settings and the time-out that all reads of search-pg share. */
export type ReadRows = <Row>(text: string, params: SqlValue[]) => Promise<SqlResult<Row>>
