/** The memory of the fleet: points and texts in collections. */

import { withoutAuditNotes } from './audit-notes.ts'
import type { Filter } from './filter.ts'
import { pathPart } from './path-part.ts'
import { ProblemError } from './problem-error.ts'
import { randomId } from './random.ts'
import { type Call, get, post, read } from './transport.ts'
import type {
  AcceptedDeletion,
  AcceptedOperation,
  ChangedPayloads,
  Collection,
  OperationState,
  PayloadChange,
  Point,
  ReadOptions,
  RecallOptions,
  Remembered,
  RememberOptions,
  ScrollAnswer,
  ScrolledPoint,
  ScrollRequest,
  SearchAnswer,
  SearchPgAnswer,
  SearchPgRequest,
  SearchRequest,
  StoredPoint,
  UpsertOptions,
  WriteOptions,
} from './types.ts'

export interface Memory {
  /**
   * Stores texts, or points whose ids may be left out: each gets an id of its own then, so that the same text twice is two
   * points. Resolves with the ids once searches find them (`wait: false`: once they are accepted). Any number of points; requests
   * of at most 4 MiB are sent one after the other, each repeated by itself where that helps.
   */
  remember(
    collection: string,
    what: string | readonly (string | Remembered)[],
    options?: RememberOptions,
  ): Promise<{ ids: string[] }>
  /** The points nearest to a text. Audit notes are left out unless the filter asks for them. */
  recall(collection: string, text: string, options?: RecallOptions): Promise<SearchAnswer>
  /** At most 1,000 points. Retried only with an `idempotencyKey`. */
  upsert(collection: string, points: Point[], options?: UpsertOptions): Promise<AcceptedOperation>
  /** By a `vector` or a `text`. */
  search(request: SearchRequest): Promise<SearchAnswer>
  /** 1 to 20 searches as one operation; the answers come in their order. One faulty search refuses all. */
  searchBatch(
    searches: readonly Omit<SearchRequest, 'signal'>[],
    options?: { signal?: AbortSignal },
  ): Promise<SearchAnswer[]>
  /** The nearest rows of a table of the relational mirror; `filterSql` is an SQL condition over its columns. */
  searchPg(request: SearchPgRequest): Promise<SearchPgAnswer>
  scroll(request: ScrollRequest): Promise<ScrollAnswer>
  /** Every point of a collection (or of a filter), page by page. */
  scrollAll(request: ScrollRequest): AsyncGenerator<ScrolledPoint>
  count(collection: string, options?: ReadOptions & { filter?: Filter }): Promise<number>
  /** Deleting is safe to repeat, so it is retried. */
  delete(collection: string, ids: string[], options?: WriteOptions): Promise<AcceptedOperation>
  /**
   * Deletes the points that match at that moment, at most 10,000; `more` says that others do. With `after` those that it wrote are
   * among them.
   */
  deleteWhere(
    collection: string,
    filter: Filter,
    options?: WriteOptions & ReadOptions,
  ): Promise<AcceptedDeletion>
  /**
   * Sets and removes keys of payloads; vectors, other keys and expiries stay. Ids without a point are counted as `unknown`. Safe
   * to repeat, so it is retried.
   */
  setPayload(
    collection: string,
    ids: string[],
    change: PayloadChange,
    options?: WriteOptions,
  ): Promise<ChangedPayloads>
  /** One point; throws ProblemError `point_not_found`. */
  get(collection: string, id: string, options?: ReadOptions): Promise<StoredPoint>
  getMany(
    collection: string,
    ids: string[],
    options?: ReadOptions,
  ): Promise<{ points: StoredPoint[]; missing: string[] }>
}

/** Members make collections, admins delete them. */
export interface Collections {
  list(): Promise<Collection[]>
  /** Throws ProblemError `collection_exists`. */
  create(name: string, options?: { description?: string }): Promise<Collection>
  /** Throws ProblemError `collection_not_found`. */
  get(name: string): Promise<Collection>
  /** With all its points. */
  delete(name: string): Promise<void>
  /** Makes filters of a large collection on the key faster; the same again is no fault. */
  index(name: string, key: string, type: 'keyword' | 'number' | 'time' | 'text'): Promise<void>
}

/** Sends a call with the agent's key. */
type Keyed = <T>(call: Call) => Promise<T>

type WaitFor = (operation: AcceptedOperation, options: { signal?: AbortSignal }) => Promise<OperationState>

/** Of one upsert: a request of this size is done long before its time is over. */
const partMax = { points: 1_000, bytes: 4 * 1_048_576 }
/** What JSON takes for a number of a vector, about. */
const numberBytes = 20
const utf8 = new TextEncoder()

function* parts(points: readonly Point[]): Generator<Point[]> {
  let part: Point[] = []
  let bytes = 0
  for (const point of points) {
    const { vector, ...rest } = point
    const size = utf8.encode(JSON.stringify(rest)).length + numberBytes * (vector?.length ?? 0)
    if (part.length === partMax.points || (part.length > 0 && bytes + size > partMax.bytes)) {
      yield part
      part = []
      bytes = 0
    }
    part.push(point)
    bytes += size
  }
  if (part.length > 0) yield part
}

export function memoryOver(keyed: Keyed, waitFor: WaitFor): Memory {
  const memory: Memory = {
    async remember(collection, what, { wait = true, ...options } = {}) {
      const given = typeof what === 'string' ? [what] : what
      const points = given.map((one): Point => {
        const point = typeof one === 'string' ? { text: one } : one
        return { ...point, id: point.id ?? randomId() } as Point
      })
      for (const part of parts(points)) {
        const accepted = await memory.upsert(collection, part, {
          ...options,
          wait,
          idempotencyKey: randomId(),
        })
        if (!wait || accepted.status === 'applied') continue
        const { status, error } = await waitFor(accepted, options)
        if (status === 'failed') throw failed(error)
      }
      return { ids: points.map(({ id }) => id) }
    },
    async recall(collection, text, { filter, ...options } = {}) {
      const asked = withoutAuditNotes(collection, filter)
      return memory.search({ ...options, collection, text, ...(asked ? { filter: asked } : {}) })
    },
    upsert: (collection, points, given = {}) => keyed(upsertCall(collection, points, given)),
    search: (request) => keyed(post('v1/vectors/search', searchBody(request), request.signal)),
    async searchBatch(searches, { signal } = {}) {
      const body = { searches: searches.map(searchBody) }
      const { results } = await keyed<{ results: SearchAnswer[] }>(
        post('v1/vectors/search/batch', body, signal),
      )
      return results
    },
    searchPg: (request) => keyed(post('v1/vectors/search-pg', searchPgBody(request), request.signal)),
    scroll: (request) => keyed(post('v1/vectors/scroll', scrollBody(request), request.signal)),
    async *scrollAll(request) {
      let offset = request.offset
      do {
        const page = await memory.scroll({ ...request, ...(offset === undefined ? {} : { offset }) })
        yield* page.points
        offset = page.next_offset ?? undefined
      } while (offset !== undefined)
    },
    async count(collection, given = {}) {
      const body = { collection, filter: given.filter, after: given.after }
      const query = { ...body, filter: given.filter && JSON.stringify(given.filter) }
      const answer = await keyed<{ count: number }>(read('v1/vectors/count', query, body, given.signal))
      return answer.count
    },
    delete: (collection, ids, given = {}) =>
      keyed({
        ...post('v1/vectors/delete', { collection, ids }, given.signal),
        method: 'DELETE',
        query: waitQuery(given),
      }),
    deleteWhere: (collection, filter, given = {}) =>
      keyed({
        ...post('v1/vectors/delete', { collection, filter, after: given.after }, given.signal),
        method: 'DELETE',
        query: waitQuery(given),
      }),
    setPayload: (collection, ids, { set, remove }, given = {}) =>
      keyed({
        ...post('v1/vectors/payload', { collection, ids, set, remove }, given.signal),
        query: waitQuery(given),
      }),
    get: (collection, id, given = {}) =>
      keyed(get('v1/vectors/get', { collection, id, after: given.after }, given.signal)),
    getMany(collection, ids, given = {}) {
      const asked = { collection, ids, after: given.after }
      return keyed(read('v1/vectors/get', asked, asked, given.signal))
    },
  }
  return memory
}

/** As the gateway answers a caller that waits. */
function failed(detail = 'the operation failed'): ProblemError {
  const unknown = { requestId: undefined, retryAfter: undefined, errors: [] }
  return new ProblemError({ code: 'operation_failed', status: 502, detail, ...unknown })
}

export function collectionsOver(keyed: Keyed): Collections {
  const path = (name: string) => `v1/collections/${pathPart(name)}`
  return {
    list: async () => (await keyed<{ collections: Collection[] }>(get('v1/collections', {}))).collections,
    create: (name, { description } = {}) =>
      keyed({
        ...post('v1/collections', { name, description }),
        headers: { 'idempotency-key': randomId() },
        repeatable: true,
      }),
    get: (name) => keyed(get(path(name), {})),
    async index(name, key, type) {
      await keyed(post(`${path(name)}/indexes`, { key, type }))
    },
    async delete(name) {
      let tries = 0
      const call: Call = { ...get(path(name), {}), method: 'DELETE', began: () => (tries += 1) }
      try {
        await keyed(call)
      } catch (error) {
        // The answer to an earlier try was lost.
        const isGone = error instanceof ProblemError && error.code === 'collection_not_found'
        if (!isGone || tries < 2) throw error
      }
    },
  }
}

function upsertCall(collection: string, points: Point[], options: UpsertOptions): Call {
  const body = {
    collection,
    points: points.map((point) =>
      point.vector === undefined ? point : { ...point, vector: Array.from(point.vector) },
    ),
  }
  return {
    ...post('v1/vectors/upsert', body, options.signal),
    query: waitQuery(options),
    headers: options.idempotencyKey === undefined ? {} : { 'idempotency-key': options.idempotencyKey },
    repeatable: options.idempotencyKey !== undefined,
  }
}

function waitQuery(options: WriteOptions): NonNullable<Call['query']> {
  return { wait: options.wait ? 'true' : undefined }
}

function searchBody(request: SearchRequest) {
  return {
    ...scrollBody(request),
    vector: request.vector && Array.from(request.vector),
    text: request.text,
    score_threshold: request.scoreThreshold,
  }
}

function searchPgBody(request: SearchPgRequest) {
  return {
    table: request.table ?? 'embeddings',
    vector: Array.from(request.vector),
    limit: request.limit,
    metric: 'cosine',
    filter_sql: request.filterSql,
    with_payload: request.withPayload,
    with_vector: request.withVector,
    after: request.after,
  }
}

/** Fields that are undefined are left out by JSON. */
function scrollBody(request: ScrollRequest | SearchRequest) {
  return {
    collection: request.collection,
    limit: request.limit,
    offset: 'offset' in request ? request.offset : undefined,
    order_by: 'orderBy' in request ? request.orderBy : undefined,
    filter: request.filter,
    with_payload: request.withPayload,
    with_vector: request.withVector,
    after: request.after,
  }
}
