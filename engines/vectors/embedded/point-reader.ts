/** Answers queries on one collection: the index proposes candidates, the table decides. */

import { setImmediate } from 'node:timers/promises'
import { createRecentCounts } from '../collections.ts'
import type { FilterTokens } from '../filter.ts'
import type { Filter, ScrollQuery, SearchQuery } from '../port.ts'
import { compareHits, compareIds, cosine, createBest, dot, norm } from '../score.ts'
import type { IndexKeeper } from './index-keeper.ts'
import { createMatchingRows, indexedTokens, matchesRow, rowsPerSlice } from './matching-rows.ts'
import { hasTokens } from './neighbour-index.ts'
import type { PointsTable, StoredPoint } from './points-table.ts'
import { othersMax, type Words } from './words-index.ts'

/** Up to this many eligible points (or `limit`, when that is more) are compared one by one instead of by the index. */
const comparedMax = 64
/** The index is asked for more and more until ties at the cut are in; beyond this the table is scanned. */
const proposedMax = 4_096
/** Up to this many matches are sorted by id; with more, walking in the order of ids meets them soon enough. */
const sortedMax = 2_000

interface FoundPoint extends StoredPoint {
  score: number
}

export interface Found {
  points: FoundPoint[]
  eligible: number
}

export type Embedders = { embedder: string | null; points: number }[]

export interface Page {
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
  const rows = createMatchingRows(table, words, total)
  const recently = createRecentCounts()

  async function search(query: SearchQuery): Promise<Found> {
    const { filter } = query
    const tokens = indexedTokens(filter)
    const few = rows.fewEligible(tokens, Math.max(query.limit, comparedAtMost(tokens)))
    if (few) {
      const length = norm(query.vector)
      const points = few.flatMap((n) => scoreRow(n, query, length) ?? []).sort(compareHits)
      return { points: cut(points, query), eligible: points.length }
    }
    const eligible = hasTokens(tokens) ? await recently(filter, () => rows.count(filter, tokens)) : total()
    return { points: cut(await nearest(query, tokens), query), eligible }
  }

  /** What the graph does not hold yet, the index compares with words that must not be there at half the speed. */
  function comparedAtMost({ all, none }: FilterTokens): number {
    if (none.length === 0 || all.length > 0) return comparedMax
    return Math.max(comparedMax, Math.min(othersMax, keeper.unindexed() / 2))
  }

  /** At least the `limit` nearest with all that tie with the last of them, or all there are. */
  async function nearest(query: SearchQuery, tokens: FilterTokens): Promise<FoundPoint[]> {
    const length = norm(query.vector)
    let asked = rows.leavesMost(tokens) ? { all: tokens.all, none: [] } : tokens
    let limit = query.limit + Math.max(4, query.limit >> 3)
    while (limit <= proposedMax) {
      const matching = () => rows.candidates(asked)
      const proposed = keeper.search({ vector: query.vector, limit, tokens: asked, matching })
      if (!proposed) break
      const points = proposed.flatMap((n) => scoreRow(n, query, length) ?? []).sort(compareHits)
      const more = proposed.length === limit
      const tied = more && points.at(-1)?.score === points[query.limit - 1]?.score
      if (points.length >= query.limit && !tied) return points
      // The index may have missed some, unless it proposed as many as there are.
      if (!more && asked === tokens) {
        if (proposed.length >= rows.mayMatch(tokens)) return points
        break
      }
      if (asked === tokens) limit *= 4
      asked = tokens
    }
    return scan(query, tokens)
  }
  /** Compares with every eligible point; other work of the thread gets its turn in between. */
  async function scan(query: SearchQuery, tokens: FilterTokens): Promise<FoundPoint[]> {
    const best = createBest<FoundPoint>(query.limit, compareHits)
    const length = norm(query.vector)
    for await (const slice of rows.slices(tokens)) {
      for (const row of slice) {
        const score = scoreOf(row, query.vector, length)
        if (best.wants(score) && matchesRow(row, query.filter)) best.add({ ...row, score })
      }
    }
    return best.take()
  }
  function scoreRow(n: number, query: SearchQuery, length: number): FoundPoint | undefined {
    const row = table.byRow(n)
    if (!row || !matchesRow(row, query.filter)) return undefined
    return { ...row, score: scoreOf(row, query.vector, length) }
  }

  async function scroll(query: ScrollQuery): Promise<Page> {
    const tokens = indexedTokens(query.filter)
    const few = hasTokens(tokens)
      ? (rows.fewEligible(tokens, sortedMax) ?? rows.fewLeft(tokens, sortedMax))
      : undefined
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
      return rows.count(filter, indexedTokens(filter))
    },
    embedders: (filter: Filter | undefined): Promise<Embedders> => countEmbedders(table, rows, filter),
    get: (ids: string[]): StoredPoint[] => table.byIds(ids),
  }
}

async function countEmbedders(
  table: PointsTable,
  rows: ReturnType<typeof createMatchingRows>,
  filter: Filter | undefined,
): Promise<Embedders> {
  const tokens = indexedTokens(filter)
  if (!hasTokens(tokens)) return table.embedders()
  const counts = new Map<string | null, number>()
  for await (const slice of rows.slices(tokens)) {
    for (const row of slice) {
      if (matchesRow(row, filter)) counts.set(row.embedder, (counts.get(row.embedder) ?? 0) + 1)
    }
  }
  return [...counts].map(([embedder, points]) => ({ embedder, points }))
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

function scoreOf(row: StoredPoint, vector: Float32Array, length: number): number {
  return cosine(dot(row.vector, 0, vector, vector.length), norm(row.vector) * length)
}

function cut(points: FoundPoint[], { limit, scoreThreshold }: SearchQuery): FoundPoint[] {
  const first = points.slice(0, limit)
  return scoreThreshold === undefined ? first : first.filter((point) => point.score >= scoreThreshold)
}
