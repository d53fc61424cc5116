/**
 * Answers queries on one collection: the index proposes candidates, the table decides. Points are counted by the words of a filter
 * where these decide, by the payloads elsewhere.
 */

import { setImmediate } from 'node:timers/promises'
import { createRecentCounts } from '../collections.ts'
import { filterTokens, matches } from '../filter.ts'
import type { Filter, Payload, ScrollQuery, SearchQuery } from '../port.ts'
import { compareHits, compareIds, cosine, createBest, dot, norm } from '../score.ts'
import type { IndexKeeper } from './index-keeper.ts'
import type { PointsTable, StoredPoint } from './points-table.ts'
import { everyRow, type Words } from './words-index.ts'

/** Up to this many eligible points (or `limit`, when that is more) are compared one by one instead of by the index. */
const comparedMax = 64
/** The index is asked for more and more until ties at the cut are in; beyond this the table is scanned. */
const proposedMax = 4_096
/** Up to this many matches are sorted by id; with more, walking in the order of ids meets them soon enough. */
const sortedMax = 2_000

interface FoundPoint extends StoredPoint {
  score: number
}

interface Page {
  points: StoredPoint[]
  /** The id that the next page begins with. */
  next: string | null
}

export type PointReader = ReturnType<typeof createPointReader>

/** `total` is the number of points in the table. */
export function createPointReader(
  table: PointsTable,
  words: Words,
  keeper: IndexKeeper,
  total: () => number,
) {
  const count = createCounter(table, words)
  const recently = createRecentCounts()

  async function search(query: SearchQuery): Promise<{ points: FoundPoint[]; eligible: number }> {
    const { filter } = query
    const tokens = filterTokens(filter).slice(0, indexedConditionsMax)
    const few = fewEligible(table, words, tokens, total(), Math.max(query.limit, comparedMax))
    if (few) {
      const length = norm(query.vector)
      const points = few.flatMap((n) => scoreRow(n, query, length) ?? []).sort(compareHits)
      return { points: cut(points, query), eligible: points.length }
    }
    const eligible =
      filter && tokens.length > 0 ? await recently(filter.must, () => count(filter, tokens)) : total()
    return { points: cut(await nearest(query, tokens), query), eligible }
  }

  /** At least the `limit` nearest with all that tie with the last of them, or all there are. */
  async function nearest(query: SearchQuery, tokens: string[]): Promise<FoundPoint[]> {
    const matching = () => candidates(words, tokens)
    const length = norm(query.vector)
    let limit = query.limit + Math.max(4, query.limit >> 3)
    for (; limit <= proposedMax; limit *= 4) {
      const proposed = keeper.search({ vector: query.vector, limit, tokens, matching })
      if (!proposed) break
      const points = proposed.flatMap((n) => scoreRow(n, query, length) ?? []).sort(compareHits)
      const more = proposed.length === limit
      const tied = more && points.at(-1)?.score === points[query.limit - 1]?.score
      if (points.length >= query.limit && !tied) return points
      if (!more) break
    }
    return scan(query, tokens)
  }

  /** Compares with every eligible point; other work of the thread gets its turn in between. */
  async function scan(query: SearchQuery, tokens: string[]): Promise<FoundPoint[]> {
    const best = createBest<FoundPoint>(query.limit, compareHits)
    const length = norm(query.vector)
    for await (const rows of tokens.length === 0 ? allRows() : rowsWith(tokens)) {
      for (const row of rows) {
        const score = scoreOf(row, query.vector, length)
        if (best.wants(score) && matchesRow(row, query.filter)) best.add({ ...row, score })
      }
    }
    return best.take()
  }
  async function* allRows(): AsyncGenerator<StoredPoint[]> {
    let after = 0
    for (;;) {
      const rows = table.rowsAfter(after, rowsPerSlice)
      if (rows.length === 0) return
      yield rows
      after = rows.at(-1)!.n
      await setImmediate()
    }
  }
  /** Rows that have the words and rows that may have them. */
  async function* rowsWith(tokens: string[]): AsyncGenerator<StoredPoint[]> {
    const ns = candidates(words, tokens)
    for (let i = 0; i < ns.length; i += rowsPerSlice) {
      yield ns.slice(i, i + rowsPerSlice).flatMap((n) => table.byRow(n) ?? [])
      await setImmediate()
    }
  }
  function scoreRow(n: number, query: SearchQuery, length: number): FoundPoint | undefined {
    const row = table.byRow(n)
    if (!row || !matchesRow(row, query.filter)) return undefined
    return { ...row, score: scoreOf(row, query.vector, length) }
  }

  async function scroll(query: ScrollQuery): Promise<Page> {
    const tokens = filterTokens(query.filter).slice(0, indexedConditionsMax)
    const few = tokens.length > 0 ? fewEligible(table, words, tokens, everyRow, sortedMax) : undefined
    const from = query.offset ?? ''
    return few ? sorted(few, from, query) : walk(from, query)
  }
  /** Only rows of the page are read whole. */
  function sorted(ns: number[], from: string, query: ScrollQuery): Page {
    const page = createPage(query)
    const ids = ns.flatMap((n) => table.idOfRow(n) ?? []).filter((id) => compareIds(id, from) >= 0)
    for (const id of ids.sort(compareIds)) {
      const [row] = table.byIds([id])
      if (row && matchesRow(row, query.filter) && !page.add(row)) break
    }
    return page.page
  }
  async function walk(from: string, query: ScrollQuery): Promise<Page> {
    const page = createPage(query)
    for (let start = from; ; ) {
      let looked = 0
      let following: string | undefined
      for (const row of table.fromId(start, rowsPerSlice + 1)) {
        looked += 1
        if (looked > rowsPerSlice) {
          following = row.id
          break
        }
        if (matchesRow(row, query.filter) && !page.add(row)) return page.page
      }
      if (following === undefined) return page.page
      start = following
      await setImmediate()
    }
  }
  return {
    search,
    scroll,
    async count(filter: Filter | undefined): Promise<number> {
      const tokens = filterTokens(filter).slice(0, indexedConditionsMax)
      return filter && tokens.length > 0 ? count(filter, tokens) : total()
    },
    get: (ids: string[]): StoredPoint[] => table.byIds(ids),
  }
}

/** A float32 as JSON has about so many characters. */
const bytesPerNumber = 20

/** Roughly: characters of what a caller gets of a point, as JSON. */
export function jsonBytes(
  { id, payload, vector }: StoredPoint,
  { withPayload, withVector }: Pick<ScrollQuery, 'withPayload' | 'withVector'>,
): number {
  const ofPayload = withPayload === false ? 0 : payload.length
  return id.length + ofPayload + (withVector === true ? vector.length * bytesPerNumber : 0)
}

/** A page that is being filled; `add` is false for the point that the next one begins with. */
function createPage(query: ScrollQuery): { page: Page; add(row: StoredPoint): boolean } {
  const page: Page = { points: [], next: null }
  const { limit, bytesMax = Number.POSITIVE_INFINITY } = query
  let bytes = 0
  return {
    page,
    add(row) {
      bytes += jsonBytes(row, query)
      if (page.points.length < limit && (page.points.length === 0 || bytes <= bytesMax)) {
        page.points.push(row)
        return true
      }
      page.next = row.id
      return false
    },
  }
}

/** The rows that may be eligible when they are no more than `most`. */
function fewEligible(
  table: PointsTable,
  words: Words,
  tokens: string[],
  total: number,
  most: number,
): number[] | undefined {
  if (tokens.length === 0) return total > most ? undefined : table.rowNumbers(most)
  const ns = words.rowsWith(tokens, most + 1)
  if (ns.length > most) return undefined
  const wide = words.wideRows(most + 1 - ns.length)
  return ns.length + wide.length > most ? undefined : ns.concat(wide)
}

function scoreOf(row: StoredPoint, vector: Float32Array, length: number): number {
  return cosine(dot(row.vector, 0, vector, vector.length), norm(row.vector) * length)
}

function cut(points: FoundPoint[], { limit, scoreThreshold }: SearchQuery): FoundPoint[] {
  const first = points.slice(0, limit)
  return scoreThreshold === undefined ? first : first.filter((point) => point.score >= scoreThreshold)
}

/** Rows that are read before other work of the thread gets its turn. */
const rowsPerSlice = 128
/** A filter's conditions beyond these are checked on the payload alone. */
const indexedConditionsMax = 64

function createCounter(table: PointsTable, words: Words) {
  async function count(filter: Filter, tokens: string[]): Promise<number> {
    if (words.decides(tokens.length) && filter.must.length <= indexedConditionsMax) {
      return words.countWith(tokens) + (await countRows(words.wideRows(everyRow), filter))
    }
    return countRows(candidates(words, tokens), filter)
  }
  async function countRows(ns: number[], filter: Filter): Promise<number> {
    let found = 0
    for (let i = 0; i < ns.length; i++) {
      const row = table.byRow(ns[i]!)
      if (row && matchesRow(row, filter)) found++
      if (i % rowsPerSlice === rowsPerSlice - 1) await setImmediate()
    }
    return found
  }
  return count
}

/** Rows that have the words and rows that may have them. */
function candidates(words: Words, tokens: string[]): number[] {
  return words.rowsWith(tokens, everyRow).concat(words.wideRows(everyRow))
}

function matchesRow(row: StoredPoint, filter: Filter | undefined): boolean {
  return filter === undefined || matches(JSON.parse(row.payload) as Payload, filter)
}
