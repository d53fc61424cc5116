/** Reads notes and goals: one by its id, or a page of them, the newest first. */

import type { SqlExecutor, SqlValue } from '#engines/relational/port.ts'
import { AppError } from '#lib/errors.ts'
import { pageBytesMax, pieceBytesMax, readLarge } from '#runtime/http/answers.ts'
import { columnsOf, type RecordKind } from './kind.ts'

/** A page of more rows may be long to read. */
const usualLimit = 100

export interface PageQuery {
  /** Column → the value that rows must have; undefined matches all. */
  filters: Readonly<Record<string, SqlValue | undefined>>
  limit: number
  /** Only rows made before this id. */
  before?: number
  /** The oldest first, as a thread is read; `before` is then the id behind which the page begins. */
  oldestFirst?: boolean
}

interface Page<Row> {
  rows: Row[]
  /** `before` of the next page; undefined at the end. */
  next?: number
}

/** `lock` is SQL. Throws AppError `not_found`. */
export async function readRecord<Row>(
  executor: SqlExecutor,
  kind: RecordKind,
  id: number,
  lock = '',
): Promise<Row> {
  const { rows } = await executor.query<Row>(
    `select ${columnsOf(kind)} from ${kind.table} where id = $1 ${lock}`,
    [id],
  )
  const row = rows[0]
  if (!row) throw notThere(kind, id)
  return row
}

export function notThere(kind: RecordKind, id: number | string): AppError {
  const shown = typeof id === 'number' ? id : id.slice(0, 32).toWellFormed()
  return new AppError('not_found', `There is no ${kind.name} ${shown}.`)
}

/** A page whose rows are read piece by piece. */
interface BegunPage<Row> {
  /** All of it, where it fits in a piece. */
  whole: Row[] | null
  /** The first piece is there; the others are read when they are taken. */
  pieces: AsyncIterable<Row[]>
  /** `before` of the next page; undefined at the end. */
  next: number | undefined
}

/**
 * Begins a page by ids: rows that come or go meanwhile change nothing about the others. It ends at `limit` rows or at
 * `pageBytesMax` of JSON; the first row comes whatever its size.
 */
export async function beginRecords<Row extends { id: number }>(
  executor: SqlExecutor,
  kind: RecordKind,
  query: PageQuery,
): Promise<BegunPage<Row>> {
  const { limit } = query
  const readFirst = () => readPiece<Row>(executor, kind, query)
  const first = await (limit > usualLimit ? readLarge(readFirst) : readFirst())
  if (first.isWhole) {
    const whole = first.rows.slice(0, limit)
    return {
      whole,
      pieces: onePiece(whole),
      next: first.rows.length > limit ? whole.at(-1)!.id : undefined,
    }
  }
  const end = await readLarge(() => endOfPage(executor, kind, query))
  return {
    whole: null,
    pieces: piecesThrough<Row>(executor, kind, { ...query, through: end.last }, first.rows),
    next: end.isLast ? undefined : end.last,
  }
}

/** The rows of a page at once. */
export async function listRecords<Row extends { id: number }>(
  executor: SqlExecutor,
  kind: RecordKind,
  query: PageQuery,
): Promise<Page<Row>> {
  const { pieces, next } = await beginRecords<Row>(executor, kind, query)
  const rows: Row[] = []
  for await (const piece of pieces) rows.push(...piece)
  return { rows, ...(next === undefined ? {} : { next }) }
}

async function* onePiece<Row>(rows: Row[]): AsyncGenerator<Row[]> {
  yield rows
}

async function* piecesThrough<Row extends { id: number }>(
  executor: SqlExecutor,
  kind: RecordKind,
  query: PageQuery & { through: number },
  first: Row[],
): AsyncGenerator<Row[]> {
  let { limit } = query
  for (let rows = first; ; ) {
    const wanted = rows.filter(({ id }) => !isBehind(id, query)).slice(0, limit)
    const last = wanted.at(-1)
    if (!last) return
    yield wanted
    limit -= wanted.length
    if (limit === 0 || last.id === query.through) return
    // Rows that do not fit cost their part, too: no more are looked at than such rows may be.
    const some = { ...query, limit: Math.min(limit, 4 * wanted.length + 16), before: last.id }
    rows = (await readPiece<Row>(executor, kind, some)).rows
  }
}

function isBehind(id: number, { through, oldestFirst = false }: PageQuery & { through: number }): boolean {
  return oldestFirst ? id > through : id < through
}

/** What a row takes as JSON besides its texts. */
const rowBytes = 512

/** Rows up to a piece, and the one that goes beyond it; `isWhole`: `limit` rows and one more, or all that are left. */
async function readPiece<Row extends { id: number }>(
  executor: SqlExecutor,
  kind: RecordKind,
  query: PageQuery & { through?: number },
): Promise<{ rows: Row[]; isWhole: boolean }> {
  const { conditions, order, params } = selectionOf(query)
  const sizes = `octet_length(${kind.title}) + octet_length(${kind.text}) + ${rowBytes}`
  const most = `$${params.push(pieceBytesMax)}`
  // Large texts stay where they are until a row is wanted: their lengths are known without them.
  const { rows } = await executor.query<Row & { upto: number }>(
    `select ${columnsOf(kind)}, upto::float8 as upto from (
       select *, sum(bytes) over (order by id ${order} rows unbounded preceding) as upto from (
         select ${columnsOf(kind)}, ${sizes} as bytes from ${kind.table}
         ${conditions} order by id ${order} limit $1) page) sized
     where upto - bytes < ${most} order by id ${order}`,
    params,
  )
  const isWhole = rows.length > query.limit || (rows.at(-1)?.upto ?? 0) < pieceBytesMax
  return { rows: rows.map(({ upto: _, ...row }) => row as unknown as Row), isWhole }
}

/** The last row of a page that does not fit in a piece; `isLast`: there are no rows behind it. */
async function endOfPage(
  executor: SqlExecutor,
  kind: RecordKind,
  query: PageQuery,
): Promise<{ last: number; isLast: boolean }> {
  const { conditions, order, params } = selectionOf(query)
  const most = `$${params.push(pageBytesMax)}`
  const over = `over (order by id ${order} rows unbounded preceding)`
  const jsonOf = (column: string) => `octet_length(to_json(${column})::text)`
  const { rows } = await executor.query<{ id: number; total: number }>(
    `with page as (
       select id, ${kind.title} as title, ${kind.text} as text from ${kind.table}
       ${conditions} order by id ${order} limit $1),
     sized as (
       select *, octet_length(title) + octet_length(text) + ${rowBytes} as bytes,
         sum(octet_length(title) + octet_length(text) + ${rowBytes}) ${over} as upto from page),
     exact as (
       select id, row_number() ${over} as n,
         sum(${jsonOf('title')} + ${jsonOf('text')} + ${rowBytes}) ${over} as upto
       from sized where upto - bytes < ${most})
     select id, (select count(*) from page) as total from exact where upto <= ${most} or n = 1
     order by id ${order}`,
    params,
  )
  const within = rows.slice(0, query.limit)
  return { last: within.at(-1)!.id, isLast: rows[0]!.total === within.length }
}

function selectionOf({
  filters,
  limit,
  before,
  through,
  oldestFirst = false,
}: PageQuery & { through?: number }) {
  const params: SqlValue[] = [limit + 1]
  const [behind, until] = oldestFirst ? ['>', '<='] : ['<', '>=']
  const conditions: string[] = []
  if (before !== undefined) conditions.push(`id ${behind} $${params.push(before)}`)
  if (through !== undefined) conditions.push(`id ${until} $${params.push(through)}`)
  for (const [column, value] of Object.entries(filters)) {
    if (value !== undefined) conditions.push(`${column} = $${params.push(value)}`)
  }
  return {
    params,
    conditions: conditions.length === 0 ? '' : `where ${conditions.join(' and ')}`,
    order: oldestFirst ? 'asc' : 'desc',
  }
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
