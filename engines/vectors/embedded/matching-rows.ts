/**
 * The rows of a collection that a filter lets through: counted by the words of the filter where these decide, by the payloads
 * elsewhere, and proposed one by one where they are few.
 */

import { setImmediate } from 'node:timers/promises'
import { boundsOf, compileFilter, type FilterTokens, filterTokens } from '../filter.ts'
import type { Filter, Payload } from '../port.ts'
import { hasTokens, type WordFilter } from './neighbour-index.ts'
import { isPresent, type PointsTable, type StoredPoint } from './points-table.ts'
import { everyRow, type Words } from './words-index.ts'

/** Rows that are read before other work of the thread gets its turn. */
export const rowsPerSlice = 128
/** With more, the payloads decide. */
const decidingMax = 64

/** A filter with what words say of it. */
export interface RowFilter {
  filter: Filter | undefined
  tokens: FilterTokens
  /** Whether words alone tell the rows that match. */
  isDecided: boolean
  /** Microseconds since 1970: a matching payload has its `updated_at` between them, both included. */
  within: { least: number; most: number } | undefined
  /** Whether a payload, as JSON text, matches. */
  test(payload: string): boolean
}

export function readFilter(filter: Filter | undefined): RowFilter {
  const tokens = filterTokens(filter)
  const matches = compileFilter(filter)
  return {
    filter,
    tokens,
    isDecided: tokens.decide && Math.max(tokens.all.length, tokens.none.length) <= decidingMax,
    within: timesWithin(filter),
    test: filter === undefined ? () => true : (payload) => matches(JSON.parse(payload) as Payload),
  }
}

function timesWithin({ must = [] }: Filter = {}): RowFilter['within'] {
  for (const condition of must) {
    if (!('range' in condition) || condition.key !== 'updated_at') continue
    const { isTime, gt, gte, lt, lte } = boundsOf(condition.range)
    if (isTime) return { least: gte ?? gt ?? -Infinity, most: lte ?? lt ?? Infinity }
  }
  return undefined
}

export type MatchingRows = ReturnType<typeof createMatchingRows>

/** For filters that words decide; `total` is the number of points in the table. */
export function createMatchingRows(table: PointsTable, words: Words, total: () => number) {
  /** Rows that match by their words and rows that may match. */
  function candidates({ all, none }: WordFilter): number[] {
    if (all.length === 0) return words.rowsWithNone(none, table.everyRowNumber)
    const ns = words.rowsWith(all, everyRow).concat(words.wideRows(everyRow))
    if (none.length === 0) return ns
    const without = words.rowsWithAny(none)
    return ns.filter((n) => !without.has(n))
  }
  /** Rows that may match, at most; unknown where words must be there. */
  function mayMatch({ all, none }: WordFilter): number {
    if (all.length > 0) return Number.POSITIVE_INFINITY
    return none.length === 0 ? total() : total() - words.rowsWithAny(none).size
  }
  /** The rows that may be eligible when they are no more than `most`. */
  function fewEligible(tokens: WordFilter, most: number): number[] | undefined {
    const { all, none } = tokens
    if (all.length === 0) {
      if (mayMatch(tokens) > most) return undefined
      return none.length === 0 ? table.rowNumbers(most) : candidates(tokens)
    }
    const ns = words.rowsWith(all, most + 1)
    const wide = ns.length > most ? [] : words.wideRows(most + 1 - ns.length)
    return ns.length + wide.length > most ? undefined : ns.concat(wide)
  }
  /** The same where many have the words that must be there, and few of these are left by the others. */
  function fewLeft(tokens: WordFilter, most: number): number[] | undefined {
    if (tokens.all.length === 0 || tokens.none.length === 0) return undefined
    const rows = candidates(tokens)
    return rows.length > most ? undefined : rows
  }
  /** The index looks at words that must not be there one by one: where most points stay, dropping hits is faster. */
  function leavesMost({ all, none }: WordFilter): boolean {
    return none.length > 0 && (all.length > 0 || words.rowsWithAny(none).size <= total() / 2)
  }

  /** Every row that may match; other work of the thread gets its turn in between. */
  async function* slices(tokens: WordFilter): AsyncGenerator<StoredPoint[]> {
    const ns = hasTokens(tokens) ? candidates(tokens) : undefined
    for (let from = 0, after = 0; ; from += rowsPerSlice) {
      const rows = ns
        ? ns.slice(from, from + rowsPerSlice).flatMap((n) => table.byRow(n) ?? [])
        : table.rowsAfter(after, rowsPerSlice)
      if (ns ? from >= ns.length : rows.length === 0) return
      yield rows.filter(isPresent)
      after = rows.at(-1)?.n ?? after
      await setImmediate()
    }
  }

  async function count({ tokens, test }: RowFilter): Promise<number> {
    if (!words.decides(tokens.all.length)) return countRows(candidates(tokens), test)
    const wide = words.wideRows(everyRow)
    return countByWords(tokens, wide.length) + (await countRows(wide, test))
  }
  /** Without the `wide` rows under the word of payloads with too many. */
  function countByWords({ all, none }: WordFilter, wide: number): number {
    if (none.length === 0) return words.countWith(all)
    const without = words.rowsWithAny(none)
    if (all.length === 0) return Math.max(0, total() - without.size - wide)
    return words.rowsWith(all, everyRow).filter((n) => !without.has(n)).length
  }
  /** Rows that are there, have not expired and pass the test. */
  async function countRows(ns: number[], test: RowFilter['test']): Promise<number> {
    let found = 0
    for (let i = 0; i < ns.length; i++) {
      const row = table.byRow(ns[i]!)
      if (row && test(row.payload)) found++
      if (i % rowsPerSlice === rowsPerSlice - 1) await setImmediate()
    }
    return found
  }
  return {
    candidates,
    slices,
    mayMatch,
    fewEligible,
    fewLeft,
    leavesMost,
    countRows,
    /** The exact number. */
    count: async (asked: RowFilter): Promise<number> => (hasTokens(asked.tokens) ? count(asked) : total()),
  }
}
