/** Answers queries on one collection: the index proposes candidates, the table decides. */

import { createRecentCounts } from '../collections.ts'
import type { ExpiredPoint, Filter, ScrollQuery, SearchQuery } from '../port.ts'
import { compareHits, createBest, norm } from '../score.ts'
import type { Expiry } from './expiry.ts'
import { cut, type Found, type FoundPoint, proposedMax, scoreOf, scoreRow, searchSelected } from './found.ts'
import type { IndexKeeper } from './index-keeper.ts'
import { createMatchingRows, type MatchingRows, type RowFilter, readFilter } from './matching-rows.ts'
import { hasTokens, type WordFilter } from './neighbour-index.ts'
import { orderedPage, type Page, type RowTest, sortedPage, walkedPage } from './pages.ts'
import type { HeldRow, PointsTable, StoredPoint } from './points-table.ts'
import type { Selections } from './selections.ts'
import type { Times } from './times-index.ts'
import { othersMax, type Words } from './words-index.ts'

/** Up to this many eligible points (or `limit`, when that is more) are compared one by one instead of by the index. */
const comparedMax = 64
/** Up to this many matches are sorted by id; with more, walking in the order of ids meets them soon enough. */
const sortedMax = 2_000

export type Embedders = { embedder: string | null; points: number }[]

export type PointReader = ReturnType<typeof createPointReader>

/** `total` is the number of points in the table; `expiry` knows those of them that have expired. */
export function createPointReader(
  table: PointsTable,
  {
    words,
    times,
    selections,
    keeper,
  }: { words: Words; times: Times; selections: Selections; keeper: IndexKeeper },
  { total, expiry }: { total: () => number; expiry: Expiry },
) {
  const rows = createMatchingRows(table, words, total)
  const recently = createRecentCounts()

  async function search(query: SearchQuery): Promise<Found> {
    const asked = readFilter(query.filter)
    const { tokens, test } = asked
    if (!asked.isDecided) {
      const selected = await selections.of(asked)
      return searchSelected({ table, keeper, total, expired: expiry.expiredMatching(test) }, query, selected)
    }
    const few = rows.fewEligible(tokens, Math.max(query.limit, comparedAtMost(tokens)))
    if (few) {
      const length = norm(query.vector)
      const points = few
        .flatMap((n) => scoreRow(table, n, query.vector, length, test) ?? [])
        .sort(compareHits)
      return { points: cut(points, query), eligible: points.length }
    }
    const eligible = await countEligible(query.filter, asked)
    return { points: cut(await nearest(query, asked), query), eligible }
  }
  async function countEligible(filter: Filter | undefined, asked: RowFilter): Promise<number> {
    if (!hasTokens(asked.tokens)) return total() - expiry.expired()
    return recently([filter, expiry.removals()], async () => {
      const found = await rows.count(asked)
      return Math.max(0, found - expiry.expiredMatching(asked.test))
    })
  }
  /** What the graph does not hold yet, the index compares with words that must not be there at half the speed. */
  function comparedAtMost({ all, none }: WordFilter): number {
    if (none.length === 0 || all.length > 0) return comparedMax
    return Math.max(comparedMax, Math.min(othersMax, keeper.unindexed() / 2))
  }

  /** At least the `limit` nearest with all that tie with the last of them, or all there are. */
  async function nearest(query: SearchQuery, { tokens, test }: RowFilter): Promise<FoundPoint[]> {
    const length = norm(query.vector)
    let asked = rows.leavesMost(tokens) ? { ...tokens, none: [] } : tokens
    let limit = query.limit + Math.max(4, query.limit >> 3)
    while (limit <= proposedMax) {
      const matching = () => rows.candidates(asked)
      const proposed = keeper.search({ vector: query.vector, limit, tokens: asked, matching })
      if (!proposed) break
      const points = proposed
        .flatMap((n) => scoreRow(table, n, query.vector, length, test) ?? [])
        .sort(compareHits)
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
    return scan(query, tokens, test)
  }
  /** Compares with every eligible point; other work of the thread gets its turn in between. */
  async function scan(
    query: SearchQuery,
    tokens: WordFilter,
    test: RowFilter['test'],
  ): Promise<FoundPoint[]> {
    const best = createBest<FoundPoint>(query.limit, compareHits)
    const length = norm(query.vector)
    for await (const slice of rows.slices(tokens)) {
      for (const row of slice) {
        const score = scoreOf(row, query.vector, length)
        if (best.wants(score) && test(row.payload)) best.add({ ...row, score })
      }
    }
    return best.take()
  }
  async function scroll(query: ScrollQuery): Promise<Page> {
    const asked = readFilter(query.filter)
    if (query.updatedAt) {
      const selected = query.filter && (await selections.of(asked))
      return orderedPage(table, times, query, query.updatedAt, (n) => selected?.has(n) ?? true)
    }
    if (!asked.isDecided) {
      const selected = await selections.of(asked)
      const isIn = ({ n }: StoredPoint) => selected.has(n)
      return selected.size() <= sortedMax
        ? sortedPage(table, selected.rows(), query, isIn)
        : walkedPage(table, query, isIn)
    }
    const { tokens, test } = asked
    const matches = ({ payload }: StoredPoint) => test(payload)
    const few = hasTokens(tokens)
      ? (rows.fewEligible(tokens, sortedMax) ?? rows.fewLeft(tokens, sortedMax))
      : undefined
    return few ? sortedPage(table, few, query, matches) : walkedPage(table, query, matches)
  }
  return {
    search,
    scroll,
    count: (filter: Filter | undefined): Promise<number> =>
      countMatching(readFilter(filter), { rows, selections, total, expiry }),
    embedders: (filter: Filter | undefined): Promise<Embedders> =>
      embeddersOf(readFilter(filter), { table, rows, selections }),
    get: (ids: string[]): StoredPoint[] => table.byIds(ids),
    held: (ids: string[]): HeldRow[] => table.held(ids),
    expired: (limit: number): ExpiredPoint[] => table.expired(limit),
  }
}

interface CountTools {
  rows: MatchingRows
  selections: Selections
  total: () => number
  expiry: Expiry
}

/** The exact number. */
async function countMatching(
  asked: RowFilter,
  { rows, selections, total, expiry }: CountTools,
): Promise<number> {
  if (asked.isDecided && !hasTokens(asked.tokens)) return total() - expiry.expired()
  const selected = asked.isDecided ? undefined : await selections.of(asked)
  if (expiry.isSettled()) return selected?.size() ?? rows.count(asked)
  // Words and selections still have expired points: the table decides.
  return rows.countRows(selected?.rows() ?? rows.candidates(asked.tokens), asked.test)
}

const noWords: WordFilter = { all: [], none: [] }

async function embeddersOf(
  asked: RowFilter,
  { table, rows, selections }: { table: PointsTable; rows: MatchingRows; selections: Selections },
): Promise<Embedders> {
  if (!asked.isDecided) {
    const selected = await selections.of(asked)
    return countEmbedders(rows.slices(noWords), ({ n }) => selected.has(n))
  }
  if (!hasTokens(asked.tokens)) return table.embedders()
  return countEmbedders(rows.slices(asked.tokens), ({ payload }) => asked.test(payload))
}

async function countEmbedders(slices: AsyncIterable<StoredPoint[]>, matches: RowTest): Promise<Embedders> {
  const counts = new Map<string | null, number>()
  for await (const slice of slices) {
    for (const row of slice) {
      if (matches(row)) counts.set(row.embedder, (counts.get(row.embedder) ?? 0) + 1)
    }
  }
  return [...counts].map(([embedder, points]) => ({ embedder, points }))
}
