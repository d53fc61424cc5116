/**
 * The typed client of the platform: an agent proves who it is with its private key, works on its vectors, talks to other
 * agents and fires events.
 */

import { readFileSync } from 'node:fs'
import { withoutAuditNotes } from './audit-notes.ts'
import { type FindAnswer, type FindOptions, find } from './find.ts'
import { defaultHubUrl, hubOver } from './hub.ts'
import type { Goals, Notes } from './hub-types.ts'
import { createKeyHolder } from './key-holder.ts'
import { pathPart } from './path-part.ts'
import { ownProblem } from './problem-error.ts'
import type { RunCalls } from './run-types.ts'
import { defaultRunUrl, runsOver } from './runs.ts'
import {
  authorized,
  type Call,
  createTransport,
  get,
  post,
  read,
  type TransportOptions,
} from './transport.ts'
import type {
  AcceptedOperation,
  AgentDebug,
  Embeddings,
  Filter,
  FireAnswer,
  FiredEvent,
  FireOptions,
  Health,
  OperationState,
  Point,
  ReadOptions,
  RecallOptions,
  ScrollAnswer,
  ScrolledPoint,
  ScrollRequest,
  SearchAnswer,
  SearchPgAnswer,
  SearchPgRequest,
  SearchRequest,
  Stats,
  StoredPoint,
  UpsertOptions,
  WriteOptions,
} from './types.ts'
import { fireOver, openWebhookTransport } from './webhooks.ts'

export { withoutAuditNotes } from './audit-notes.ts'
export type { FindAnswer, FindOptions, FoundRecord } from './find.ts'
export type * from './hub-types.ts'
export { createMainApi, type MainApi, type MainApiOptions, type MainApiRequest } from './main-api.ts'
export { ProblemError } from './problem-error.ts'
export type { RecordsOptions, TopicRecord } from './records.ts'
export type * from './run-types.ts'
export type * from './types.ts'

const waitForMs = 60_000
const pollMs = { least: 50, most: 1_000 }

export interface ClientOptions extends Omit<TransportOptions, 'baseUrl'> {
  /** For example `http://127.0.0.1:8080`. */
  vectorUrl: string
  /** Default `http://127.0.0.1:8083`. */
  hubUrl?: string | undefined
  /** The run gateway. Default `http://127.0.0.1:8082`. */
  runUrl?: string | undefined
  /** The webhook relay: a URL or `host:port`. Default `http://127.0.0.1:9090`. */
  webhookUrl?: string | undefined
  agentId: string
  /** PKCS#8 PEM of the agent's Ed25519 key, or the file that holds it. */
  privateKeyPem?: string
  privateKeyFile?: string
  /** The index file that `find` searches. */
  localIndex?: string
  /** Milliseconds that only go forward, for tests. */
  now?: () => number
}

export interface Client extends RunCalls {
  /** A valid gateway key: made by handshake and verification when none is held. */
  apiKey(): Promise<string>
  /** At most 1,000 points. Retried only with an `idempotencyKey`. */
  upsert(collection: string, points: Point[], options?: UpsertOptions): Promise<AcceptedOperation>
  search(request: SearchRequest): Promise<SearchAnswer>
  /** The points nearest to a text, by the platform's embedder. Audit notes are left out unless the filter asks for them. */
  recall(collection: string, text: string, options?: RecallOptions): Promise<SearchAnswer>
  /** The nearest rows of a table of the relational mirror; `filterSql` is an SQL condition over its columns. */
  searchPg(request: SearchPgRequest): Promise<SearchPgAnswer>
  scroll(request: ScrollRequest): Promise<ScrollAnswer>
  /** Every point of a collection (or of a filter), page by page. */
  scrollAll(request: ScrollRequest): AsyncGenerator<ScrolledPoint>
  count(collection: string, options?: ReadOptions & { filter?: Filter }): Promise<number>
  /** Deleting is safe to repeat, so it is retried. */
  delete(collection: string, ids: string[], options?: WriteOptions): Promise<AcceptedOperation>
  /** One point; throws ProblemError `point_not_found`. */
  get(collection: string, id: string, options?: ReadOptions): Promise<StoredPoint>
  getMany(
    collection: string,
    ids: string[],
    options?: ReadOptions,
  ): Promise<{ points: StoredPoint[]; missing: string[] }>
  /** Searches a local index and gets the records that it names from the gateway, and no others. */
  find(query: string, options?: FindOptions): Promise<FindAnswer>
  operation(operationId: string): Promise<OperationState>
  /** Resolves once the operation is applied or failed; throws ProblemError `timeout` after `timeoutMs` (60 s). */
  waitFor(
    operation: string | AcceptedOperation,
    options?: { timeoutMs?: number; signal?: AbortSignal },
  ): Promise<OperationState>
  embeddings(input: string | string[]): Promise<Embeddings>
  /**
   * Resolves once the log holds a delivery for each target; repeated after a fault, receivers drop duplicates by their
   * idempotency key. `targets` restricts it to those.
   */
  fire(event: FiredEvent, options?: FireOptions): Promise<FireAnswer>
  /** The notes of the hub, in threads. */
  notes: Notes
  /** The goals of the hub. */
  goals: Goals
  /** Sizes and indexes of the collections, and the p95 of searches. */
  stats(): Promise<Stats>
  /** Sessions, last operations and use of the limits: of this agent, or of another for those who may look. */
  debugAgent(agentId?: string): Promise<AgentDebug>
  /** Also when it says `fail`. */
  health(): Promise<Health>
  /** Ends the calls under way; later ones fail at once. */
  close(): Promise<void>
}

/** Builds a client; nothing is sent before the first call. Every method throws ProblemError. */
export function createClient(options: ClientOptions): Client {
  const transport = createTransport({ ...options, baseUrl: options.vectorUrl })
  const relay = openWebhookTransport(options)
  const hub = createTransport({ ...options, baseUrl: options.hubUrl ?? defaultHubUrl })
  const runs = createTransport({ ...options, baseUrl: options.runUrl ?? defaultRunUrl })
  const keys = createKeyHolder(transport, {
    agentId: options.agentId,
    privateKeyPem: () => privateKeyOf(options),
    now: options.now,
  })

  const keyed = <T>(call: Call) => keys.with((key) => transport.call<T>(authorized(call, key)))
  const operation = (id: string, signal?: AbortSignal) =>
    keyed<OperationState>(get(`v1/operations/${pathPart(id)}`, {}, signal))

  const client: Client = {
    apiKey: keys.get,
    upsert: (collection, points, given = {}) => keyed(upsertCall(collection, points, given)),
    search: (request) => keyed(post('v1/vectors/search', searchBody(request), request.signal)),
    async recall(collection, text, { filter, ...options } = {}) {
      const { data } = await client.embeddings(text)
      options.signal?.throwIfAborted()
      const asked = withoutAuditNotes(collection, filter)
      return client.search({
        ...options,
        collection,
        vector: data[0]!.embedding,
        ...(asked ? { filter: asked } : {}),
      })
    },
    searchPg: (request) => keyed(post('v1/vectors/search-pg', searchPgBody(request), request.signal)),
    scroll: (request) => keyed(post('v1/vectors/scroll', scrollBody(request), request.signal)),
    async *scrollAll(request) {
      let offset = request.offset
      do {
        const page = await client.scroll({ ...request, ...(offset === undefined ? {} : { offset }) })
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
    get: (collection, id, given = {}) =>
      keyed(get('v1/vectors/get', { collection, id, after: given.after }, given.signal)),
    getMany(collection, ids, given = {}) {
      const asked = { collection, ids, after: given.after }
      return keyed(read('v1/vectors/get', asked, asked, given.signal))
    },
    find: (query, given = {}) => find(query, { ...localIndexOf(options), ...given }, client.getMany),
    operation: (id) => operation(id),
    waitFor: (given, waiting = {}) =>
      waitFor((signal) => operation(idOf(given), signal), waiting.timeoutMs ?? waitForMs, waiting.signal),
    embeddings: (input) => keyed(post('v1/embeddings', { input })),
    ...hubOver({
      respond: (call) => keys.with((key) => hub.respond(authorized(call, key))),
      stream: (call) => keys.with((key) => hub.stream(authorized(call, key))),
    }),
    ...runsOver({
      respond: (call) => keys.with((key) => runs.respond(authorized(call, key))),
      open: (call) => keys.with((key) => runs.open(authorized(call, key))),
    }),
    fire: (event, given) => fireOver(relay, event, given),
    stats: () => keyed(get('v1/stats', {})),
    debugAgent: (agentId = options.agentId) => keyed(get(`v1/debug/agent/${pathPart(agentId)}`, {})),
    health: () => transport.call({ ...get('v1/health', {}), alsoAnswers: [503] }),
    async close() {
      transport.close()
      relay.close()
      hub.close()
      runs.close()
    },
  }
  return client
}

function privateKeyOf(options: ClientOptions): string {
  if (options.privateKeyPem !== undefined) return options.privateKeyPem
  if (options.privateKeyFile !== undefined) return readFileSync(options.privateKeyFile, 'utf8')
  throw new TypeError('give createClient a privateKeyPem or a privateKeyFile')
}

function localIndexOf({ localIndex }: ClientOptions): FindOptions {
  return localIndex === undefined ? {} : { index: localIndex }
}

function upsertCall(collection: string, points: Point[], options: UpsertOptions): Call {
  const body = {
    collection,
    points: points.map((point) => ({ ...point, vector: Array.from(point.vector) })),
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
    vector: Array.from(request.vector),
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
    filter: request.filter,
    with_payload: request.withPayload,
    with_vector: request.withVector,
    after: request.after,
  }
}

function idOf(operation: string | AcceptedOperation): string {
  return typeof operation === 'string' ? operation : operation.operation_id
}

async function waitFor(
  ask: (signal?: AbortSignal) => Promise<OperationState>,
  timeoutMs: number,
  signal?: AbortSignal,
): Promise<OperationState> {
  const end = performance.now() + timeoutMs
  for (let pause = pollMs.least; ; pause = Math.min(pollMs.most, pause * 1.5)) {
    signal?.throwIfAborted()
    const state = await ask(signal)
    if (state.status !== 'accepted') return state
    if (performance.now() + pause > end) {
      throw ownProblem('timeout', `the operation was not applied within ${timeoutMs} ms`)
    }
    await new Promise((resolve) => setTimeout(resolve, pause))
  }
}
