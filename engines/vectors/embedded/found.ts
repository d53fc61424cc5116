/** Points that a search finds: their scores, and the search in a selection of rows. */

import { setImmediate } from 'node:timers/promises'
import { hnsw } from '../collections.ts'
import type { SearchQuery } from '../port.ts'
import { compareHits, cosine, createBest, dot, norm } from '../score.ts'
import type { IndexKeeper } from './index-keeper.ts'
import { rowsPerSlice } from './matching-rows.ts'
import type { PointsTable, StoredPoint } from './points-table.ts'
import type { Selection } from './selections.ts'

/** The index is asked for more and more until ties at the cut are in; beyond this the table is scanned. */
export const proposedMax = 4_096
/** Rows of a selection that are compared one by one; with more the graph proposes first. */
const selectedComparedMax = 512
/**
 * Matching points lie unevenly: so many times what their share asks for is proposed. With one and a half times, a search in
 * twenty-five had to propose again.
 */
const selectedSpare = 2

export interface FoundPoint extends StoredPoint {
  score: number
}

export interface Found {
  points: FoundPoint[]
  eligible: number
}

const anything = () => true

interface SelectedTools {
  table: PointsTable
  keeper: IndexKeeper
  total: () => number
  /** So many selected points have expired. */
  expired: number
}

/**
 * Few are compared one by one. Where there are more, the graph proposes as many points as hold enough of them by their share, and
 * then more; where they lie far from the question all are compared.
 */
export async function searchSelected(
  { table, keeper, total, expired }: SelectedTools,
  query: SearchQuery,
  selected: Selection,
): Promise<Found> {
  const eligible = Math.max(0, selected.size() - expired)
  const { vector } = query
  const length = norm(vector)
  const wanted = query.limit + Math.max(4, query.limit >> 3)
  let read = wanted
  // The graph compares so many in any case.
  const least = hnsw.efSearch
  let limit = Math.max(least, Math.ceil((wanted * total() * selectedSpare) / Math.max(1, eligible)))
  while (eligible > Math.max(query.limit, selectedComparedMax) && limit <= proposedMax) {
    const proposed = keeper.search({ vector, limit, tokens: { all: [], none: [] }, matching: () => [] })
    if (!proposed) break
    // The nearest come first: as many are read as without a filter, and more where they tie.
    const rows = proposed.filter((n) => selected.has(n)).slice(0, read)
    const points = rows.flatMap((n) => scoreRow(table, n, vector, length, anything) ?? []).sort(compareHits)
    const tied = points.at(-1)?.score === points[query.limit - 1]?.score
    if (points.length >= wanted && !tied) return { points: cut(points, query), eligible }
    limit *= 4
    read *= 4
  }
  const best = createBest<FoundPoint>(query.limit, compareHits)
  for (const [i, n] of selected.rows().entries()) {
    const point = scoreRow(table, n, vector, length, anything)
    if (point && best.wants(point.score)) best.add(point)
    if (i % rowsPerSlice === rowsPerSlice - 1) await setImmediate()
  }
  return { points: cut(best.take(), query), eligible }
}

/** `length` is that of the vector; undefined for a row that is gone or whose payload fails the test. */
export function scoreRow(
  table: PointsTable,
  n: number,
  vector: Float32Array,
  length: number,
  test: (payload: string) => boolean,
): FoundPoint | undefined {
  const row = table.byRow(n)
  if (!row || !test(row.payload)) return undefined
  return { ...row, score: scoreOf(row, vector, length) }
}

export function scoreOf(row: StoredPoint, vector: Float32Array, length: number): number {
  return cosine(dot(row.vector, 0, vector, vector.length), norm(row.vector) * length)
}

export function cut(points: FoundPoint[], { limit, scoreThreshold }: SearchQuery): FoundPoint[] {
  const first = points.slice(0, limit)
  return scoreThreshold === undefined ? first : first.filter((point) => point.score >= scoreThreshold)
}
