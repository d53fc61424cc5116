/**
 * The vector engine: named collections of points, nearest neighbours by cosine, filters on any payload key. The
 * platform's four collections are always there. Any other has a stored name (collections.ts): its first write in a generation makes
 * it there, and until then it reads as empty, so that there may be many of which nobody uses most.
 *
 * Ids are any strings of 1 to 512 code points and come back as they were given. Payloads are JSON objects and come back
 * equal, key by key. Vectors are float32; a driver may give them back up to a positive factor. Every call takes effect
 * in the live generation, unless it names another: a generation is a complete set of collections, which a
 * rebuild fills while the live one is used and which then replaces it at once.
 */

import type { Closeable } from '#lib/resource.ts'

export type PayloadValue = null | string | number | boolean | PayloadValue[] | { [key: string]: PayloadValue }
export type Payload = { [key: string]: PayloadValue }

export interface Point {
  id: string
  vector: Float32Array
  payload: Payload
  /** As of a ScrolledPoint. */
  embedder?: string
  expiresAt?: number
}

/** A point, with as much of it as was asked for. */
export interface ScrolledPoint {
  id: string
  payload?: Payload
  vector?: Float32Array
  /** What made its vector of a text (`Embedder.space`); absent where a caller sent the vector. */
  embedder?: string
  /** In ms since 1970: from then on no read shows the point. Absent for one that stays. */
  expiresAt?: number
}

/** What an engine knows of an id: its newest operation, and the point where that left one that has not expired. */
export interface HeldPoint {
  id: string
  /** Absent for a point of a release that kept none. */
  position?: LogPosition
  point?: Point
}

/** A point that has expired, as the operation at `position` left it. */
export interface ExpiredPoint {
  id: string
  position: LogPosition
}

export interface Hit extends ScrolledPoint {
  /** Cosine similarity, -1..1. */
  score: number
}

export type FilterValue = string | number | boolean

/**
 * `value`: equal by value and type, and an array holds it. `any`: one of these. `except`: the key has a value that is none of
 * these. `text`: every word of it is a word of the value, folded as local search folds.
 */
export type FilterMatch =
  | { value: FilterValue }
  | { any: FilterValue[] }
  | { except: FilterValue[] }
  | { text: string }

/** All numbers, or all ISO 8601 times; numbers are compared with numbers, times with texts that are times. */
export interface FilterRange {
  gt?: number | string
  gte?: number | string
  lt?: number | string
  lte?: number | string
}

/**
 * `key`: a payload key; a dotted key is a path through objects (not through arrays). Of an array any element counts. An empty key
 * is missing, null or `[]`. A filter as a condition holds where it matches.
 */
export type FilterCondition =
  | { key: string; match: FilterMatch }
  | { key: string; range: FilterRange }
  | { is_empty: { key: string } }
  | Filter

/**
 * A point matches when every condition of `must` holds, one of `should` where there are any, and none of `must_not`: the
 * words and the meaning of Qdrant's filters. A missing key meets no condition but `is_empty`.
 */
export interface Filter {
  must?: FilterCondition[]
  should?: FilterCondition[]
  must_not?: FilterCondition[]
}

/**
 * Where the record of an operation lies in the log. All records of a point lie in one partition of an epoch, so the
 * positions of one point can be compared; those of different points mean nothing to each other.
 */
export interface LogPosition {
  /** Epoch of the topic: every record of a higher one is newer. */
  epoch: number
  /** Offset in the point's partition. */
  offset: number
}

export type PointOperation = { id: string; position: LogPosition } & (
  | ({ kind: 'upsert' } & Omit<Point, 'id'>)
  | { kind: 'delete' }
)

interface ApplyOptions {
  /** Default: the live one. */
  generation?: number
  /** Ends the call, and the request to the engine, with `vector_engine_unavailable`. */
  signal?: AbortSignal
}

export interface SearchQuery {
  /** Has the store's dimension, and is finite and not zero: the caller has checked it. */
  vector: Float32Array
  limit: number
  scoreThreshold?: number
  filter?: Filter
  /** Default true. */
  withPayload?: boolean
  /** Default false. */
  withVector?: boolean
  /** Rough size of payloads and vectors as JSON: hits beyond it come without them (see `filled`). Default: no limit. */
  bytesMax?: number
}

export interface SearchResult {
  /** By falling score, ties by id (code point order). All eligible points when there are no more than `limit`. */
  hits: Hit[]
  /** So many hits, the first of them, have the payload and vector that were asked for; `get` has those of the others. */
  filled: number
  /** Points that were eligible (in the collection, or matching the filter); may be an estimate or up to 5 s old. */
  eligible: number
}

export interface ScrollQuery {
  limit: number
  /** Where to continue (inclusive), as `next` of the page before gave it: a point id, or a place in the order. */
  offset?: string
  /** By the payload's `updated_at`, points without such a time last. Default: by id. */
  updatedAt?: 'asc' | 'desc'
  filter?: Filter
  withPayload?: boolean
  withVector?: boolean
  /** The page ends at so many bytes of JSON, roughly; one point comes whatever its size. Default: no limit. */
  bytesMax?: number
}

export interface ScrollResult {
  /** `place`: in a page by `updated_at`, where one that begins with the point begins. */
  points: (ScrolledPoint & { place?: string })[]
  /** Where the next page begins, or null at the end. Every point comes exactly once when nothing changes meanwhile. */
  next: string | null
}

export type PayloadIndexType = 'keyword' | 'number' | 'time' | 'text'

export interface CollectionStats {
  collection: string
  points: number
  indexBytes: number
  status: 'ready' | 'indexing' | 'rebuilding' | 'unavailable'
  /** 0..1: the share of points that the graph index serves; the rest is scanned. */
  indexedShare: number
}

export interface VectorStore extends Closeable {
  readonly driver: 'qdrant' | 'embedded' | 'exact'

  /**
   * Applies each operation unless the engine has applied one of the same point at the same position or a newer one:
   * whatever comes late, twice or in another order, a point ends as the operation with its highest position says. What
   * is left out counts as applied. The position stays with the point, also when it is deleted (see
   * `forgetDeletions`); a point without one, of a release that kept none, takes any. Resolves when all of it is durable
   * and visible to every later call. Throws AppError `vector_engine_unavailable` when the engine is away (nothing, some
   * or all of it may then be applied: repeat it) and `validation_failed` when the engine refuses the points for good.
   */
  apply(collection: string, operations: PointOperation[], options?: ApplyOptions): Promise<void>
  /**
   * Forgets the positions of points of the live generation that were deleted longer than `olderThanMs` ago and not
   * written since. An older operation on them would take effect again. A driver also brings points that an earlier
   * release wrote to the form of this one: until then filters that need it are `vector_engine_unavailable`.
   */
  forgetDeletions(olderThanMs: number): Promise<void>
  search(collection: string, query: SearchQuery): Promise<SearchResult>
  /** Throws AppError `validation_failed` at /offset for one that no page gave. */
  scroll(collection: string, query: ScrollQuery): Promise<ScrollResult>
  /** Exact number of points, or of those that match. */
  count(collection: string, filter?: Filter): Promise<number>
  /** The points that exist, in the order of `ids`, with payload and vector. */
  get(collection: string, ids: string[]): Promise<Point[]>
  /** The state of these ids, those that were deleted or have expired included, until their deletion is forgotten. */
  held(collection: string, ids: string[], options?: Pick<ApplyOptions, 'generation'>): Promise<HeldPoint[]>
  /**
   * Up to `limit` points of the live generation that have expired. No read shows them any more, but until an operation
   * deletes them they come back with a rebuild.
   */
  expired(collection: string, limit: number): Promise<ExpiredPoint[]>
  /** Those that are there in the live generation. */
  stats(): Promise<CollectionStats[]>
  /** How many points, or of those that match, each embedder made; null: callers sent the vector. None of no points. */
  embedders(collection: string, filter?: Filter): Promise<{ embedder: string | null; points: number }[]>
  /**
   * Prepares the engine for filters on the key, in every generation, those to come included; answers stay as they are. Safe to
   * repeat. Resolves when it is begun.
   */
  indexPayload(collection: string, key: string, type: PayloadIndexType): Promise<void>
  /**
   * Removes a collection from every generation, at once for every read; none is no fault. Writes meanwhile are
   * refused as `vector_engine_unavailable`, or make it again. Throws AppError `conflict` for one of the four.
   */
  dropCollection(collection: string): Promise<void>

  /** The generation that reads see. The first is 1. */
  liveGeneration(): Promise<number>
  /** Creates empty collections of a generation that is not live; a half-built one of that number is emptied. */
  createGeneration(generation: number): Promise<void>
  /** Replaces the live generation by another one, at once for every reader, and drops the old one afterwards. */
  promoteGeneration(generation: number): Promise<void>
  dropGeneration(generation: number): Promise<void>

  /** Resolves when the engine answers; throws AppError `vector_engine_unavailable` otherwise. */
  ping(timeoutMs?: number): Promise<void>
}
