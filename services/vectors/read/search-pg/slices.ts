/**
 * Searches under a condition that takes long, on an engine that cannot end a statement: some rows at a time, so that
 * others get their turns in between. It finds what one statement finds, when no row changes meanwhile.
 */

import type { SqlResult, SqlValue } from '#engines/relational/port.ts'
import { type EmittedFilter, withTimeLimit } from './filter.ts'
import { sliceStatement } from './statement.ts'

/** A slice asks no further row after this time. */
const sliceMs = 6
/** A slice in which a single row takes longer than this ends the search. */
const rowMs = 250
const rowsMin = 8
const rowsMax = 500

export interface Key {
  collection: string
  id: string
}

interface NearestKeys {
  /** Keys of the nearest rows, at most `limit`. */
  keys: Key[]
  /** All rows that match. */
  eligible: number
}

interface SliceRow extends Key {
  /** null: the row was not asked. */
  matches: boolean | null
  distance: number | null
}

type Match = Key & { distance: number }

/** `read` runs one slice, when it is its turn. Resolves with undefined past `endAt` (performance.now). */
export async function nearestKeys(
  read: (text: string, params: SqlValue[]) => Promise<SqlResult<SliceRow>>,
  query: { filter: EmittedFilter; vector: Float32Array; limit: number },
  endAt: number,
): Promise<NearestKeys | undefined> {
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
