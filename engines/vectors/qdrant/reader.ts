/** Makes Qdrant's answers those that the port promises: in order, complete, with exact counts. */

import { AppError } from '#lib/errors.ts'
import { counted } from '#lib/plural.ts'
import { createRecentCounts, hnsw } from '../collections.ts'
import type {
  CollectionStats,
  Filter,
  Point,
  ScrollQuery,
  ScrollResult,
  SearchQuery,
  SearchResult,
} from '../port.ts'
import { compareHits, cosine } from '../score.ts'
import { type BodyPart, type Call, pathOf } from './calls.ts'
import {
  deletedAtField,
  embedderField,
  needsValues,
  toQdrantFilter,
  updatedAtField,
  withoutValues,
} from './filters.ts'
import { placeOf, readOrdered } from './ordered.ts'
import { fromQdrantRecord, isShown, payloadFields, type QdrantRecord } from './records.ts'
import { searchParams } from './storage.ts'
import { bytesPerNumber, createPointIds } from './writer.ts'

/** The engine is asked for more and more until ties at the cut are in; beyond this the rest of them is left out. */
const proposedMax = 4_096
/** Points that are read at once where bytes are limited: their sizes are not known before. */
const pointsAtOnce = 64
const embeddersMax = 1_000
/** A point's share of the graph: links in both directions on the lowest layer, which holds nearly all of them. */
const graphBytesPerPoint = hnsw.m * 2 * Uint32Array.BYTES_PER_ELEMENT

/** What Qdrant finds: "ScoredPoint" in its API. */
type Scored = QdrantRecord & { score: number }

export function createReader(call: Call) {
  const recently = createRecentCounts()
  const demandValues = createValuesCheck(call)

  const count = (collection: string, filter: Filter | undefined) =>
    countMatching(collection, toQdrantFilter(filter))

  async function countMatching(collection: string, filter: object): Promise<number> {
    const asked = { exact: true, filter }
    const path = `${pathOf(collection)}/points/count`
    return (await call<{ count: number }>('count', 'POST', path, asked)).count
  }

  async function propose(collection: string, query: SearchQuery, limit: number, exact: boolean) {
    const path = `${pathOf(collection)}/points/query`
    const body = queryBody(query.vector, {
      limit,
      with_payload: payloadFields(!isLater(query) && query.withPayload),
      with_vector: !isLater(query) && query.withVector === true,
      params: exact ? { exact } : { hnsw_ef: Math.max(hnsw.efSearch, limit), ...searchParams(limit) },
      filter: toQdrantFilter(query.filter),
    })
    const { points } = await call<{ points: Scored[] }>('query', 'POST', path, body)
    // The engine's float32 sums go slightly beyond 1.
    const hits = points.map((point) => ({ ...fromQdrantRecord(point), score: cosine(point.score, 1) }))
    return { hits: hits.sort(compareHits), more: points.length === limit }
  }

  /** A little more than `limit`, until ties with the last one cannot lie beyond what was proposed. */
  async function nearest(collection: string, query: SearchQuery) {
    let limit = query.limit + Math.max(4, query.limit >> 3)
    for (;;) {
      const { hits, more } = await propose(collection, query, limit, false)
      const tied = more && hits.at(-1)?.score === hits[query.limit - 1]?.score
      if (!tied || limit * 4 > proposedMax) return hits
      limit *= 4
    }
  }
  async function search(collection: string, query: SearchQuery): Promise<SearchResult> {
    await demandValues(collection, query.filter)
    const [found, recent] = await Promise.all([
      nearest(collection, query),
      recently([collection, query.filter ?? null], () => count(collection, query.filter)),
    ])
    let hits = found
    let eligible = recent
    if (hits.length < query.limit) {
      // The graph is approximate: when it gives fewer than asked for, an exact count says whether it missed some.
      eligible = await count(collection, query.filter)
      if (hits.length < Math.min(query.limit, eligible))
        hits = (await propose(collection, query, query.limit, true)).hits
    }
    const { scoreThreshold, limit } = query
    const first = hits.slice(0, limit)
    const kept = scoreThreshold === undefined ? first : first.filter((hit) => hit.score >= scoreThreshold)
    return { hits: kept, eligible, filled: isLater(query) ? 0 : kept.length }
  }
  return {
    search,
    async count(collection: string, filter: Filter | undefined): Promise<number> {
      await demandValues(collection, filter)
      return count(collection, filter)
    },
    async scroll(collection: string, query: ScrollQuery): Promise<ScrollResult> {
      await demandValues(collection, query.filter, query.updatedAt !== undefined)
      return scroll(call, collection, query)
    },
    async embedders(collection: string, filter: Filter | undefined) {
      await demandValues(collection, filter)
      // One for both requests: what expires between them does not change the sum.
      const matching = toQdrantFilter(filter)
      const asked = { key: embedderField, filter: matching, exact: true, limit: embeddersMax }
      type Found = { hits: { value: string; count: number }[] }
      const { hits } = await call<Found>('embedders', 'POST', `${pathOf(collection)}/facet`, asked)
      const found = hits.map(({ value, count }) => ({ embedder: value as string | null, points: count }))
      const rest =
        (await countMatching(collection, matching)) - found.reduce((sum, { points }) => sum + points, 0)
      return rest > 0 ? [...found, { embedder: null, points: rest }] : found
    },
    async get(collection: string, ids: string[]): Promise<Point[]> {
      if (ids.length === 0) return []
      const pointId = createPointIds(collection)
      const records = await call<QdrantRecord[]>('get', 'POST', `${pathOf(collection)}/points`, {
        ids: ids.map(pointId),
        with_payload: [...payloadFields(true), deletedAtField],
        with_vector: true,
      })
      const found = new Map(records.filter(isShown).map((record) => [record.id, record]))
      const inOrder = ids.map((id) => found.get(pointId(id))).filter((record) => record !== undefined)
      return inOrder.map((record) => fromQdrantRecord(record) as Point)
    },
    async stats(collection: string, dimension: number): Promise<CollectionStats> {
      type Info = { status: string; indexed_vectors_count?: number | null }
      const info = await call<Info>('stats', 'GET', pathOf(collection))
      const points = await count(collection, undefined)
      const indexed = Math.min(points, info.indexed_vectors_count ?? 0)
      return {
        collection,
        points,
        // Qdrant does not tell the size in this API: the vectors and their links.
        indexBytes: indexed * (dimension * Float32Array.BYTES_PER_ELEMENT + graphBytesPerPoint),
        status: statusOf(info.status),
        indexedShare: points === 0 ? 1 : indexed / points,
      }
    },
  }
}

async function scroll(
  call: Call,
  collection: string,
  { bytesMax, updatedAt, ...query }: ScrollQuery,
): Promise<ScrollResult> {
  const limit = bytesMax === undefined ? query.limit : Math.min(query.limit, pointsAtOnce)
  const filter = toQdrantFilter(query.filter)
  const wanted = {
    with_payload: [...payloadFields(query.withPayload), ...(updatedAt ? [updatedAtField] : [])],
    with_vector: query.withVector === true,
  }
  const path = `${pathOf(collection)}/points/scroll`
  const read = async ({ must = [] as object[], ...rest }) => {
    const body = { ...wanted, ...rest, filter: { ...filter, must: [...filter.must, ...must] } }
    return (await call<{ points: QdrantRecord[] }>('scroll', 'POST', path, body)).points
  }
  // One more than asked for: its own place is where the next page begins.
  const offset = query.offset === undefined ? {} : { offset: createPointIds(collection)(query.offset) }
  const points = updatedAt
    ? await readOrdered(read, updatedAt, query.offset, limit + 1)
    : await read({ limit: limit + 1, ...offset })
  let bytes = 0
  const over = points.findIndex((point, n) => {
    bytes += jsonBytes(point)
    return n === limit || (n > 0 && bytes > (bytesMax ?? Number.POSITIVE_INFINITY))
  })
  const found = points.map((point) => ({
    ...fromQdrantRecord(point),
    ...(updatedAt ? { place: placeOf(point) } : {}),
  }))
  const next = found[over]
  return { points: over === -1 ? found : found.slice(0, over), next: next?.place ?? next?.id ?? null }
}

/** Throws AppError `vector_engine_unavailable` while points of an earlier release lack the values that a filter or an order reads. */
function createValuesCheck(call: Call) {
  const recently = createRecentCounts()
  return async function demandValues(
    collection: string,
    filter: Filter | undefined,
    isOrdered = false,
  ): Promise<void> {
    if (!isOrdered && !needsValues(filter)) return
    const points = await recently(collection, async () => {
      const asked = { exact: true, filter: withoutValues }
      const path = `${pathOf(collection)}/points/count`
      return (await call<{ count: number }>('count', 'POST', path, asked)).count
    })
    if (points === 0) return
    throw new AppError(
      'vector_engine_unavailable',
      `${counted(points, 'point')} of an earlier release must be prepared for such a question: try again later.`,
      { retryAfter: 60 },
    )
  }
}

/** Whether payloads and vectors of the hits are to be read afterwards, because they may be too many. */
function isLater({ bytesMax, limit, withPayload, withVector }: SearchQuery): boolean {
  return bytesMax !== undefined && limit > pointsAtOnce && (withPayload !== false || withVector === true)
}

function statusOf(status: string): CollectionStats['status'] {
  if (status === 'green') return 'ready'
  return status === 'red' ? 'unavailable' : 'indexing'
}

/** Roughly: characters of what a caller gets of it. */
function jsonBytes({ payload, vector }: QdrantRecord): number {
  const { id, payload: text = '' } = payload as { id: string; payload?: string }
  return id.length + text.length + (Array.isArray(vector) ? vector.length * bytesPerNumber : 0)
}

/** JSON of a query for the points nearest to `vector`; `rest` is what else it says. */
function queryBody(vector: Float32Array, rest: object): BodyPart[] {
  return ['{"query":', vector, `,${JSON.stringify(rest).slice(1)}`]
}
