/** Shapes of the platform's interfaces, as a client sees them. */

import type { Filter } from './filter.ts'

export type JsonValue = null | string | number | boolean | JsonValue[] | { [key: string]: JsonValue }

/**
 * A vector, or a text of which the platform makes one, and that becomes `payload.text`. From `expires_at` on, an ISO time, no read
 * shows the point, and the platform deletes it.
 */
export type Point = { id: string; payload?: { [key: string]: JsonValue }; expires_at?: string | Date } & (
  | { vector: number[] | Float32Array; text?: undefined }
  | { text: string; vector?: undefined }
)

/** A point whose id may be left out. */
export type Remembered = Point extends infer P
  ? P extends Point
    ? Omit<P, 'id'> & { id?: string }
    : never
  : never

export interface RememberOptions {
  /** Default true: until searches find it. */
  wait?: boolean
  signal?: AbortSignal
}

export interface Collection {
  name: string
  description: string | null
  points: number
  /** The agent, or the person by uid; `platform` for its own four. */
  created_by: string
  created_at: string
}

export interface StoredPoint {
  id: string
  vector: number[]
  payload: { [key: string]: JsonValue }
  /** When it expires, an ISO time; absent for a point that stays. */
  expires_at?: string
}

export interface ReadOptions {
  /** The answer reflects this operation. */
  after?: string
  signal?: AbortSignal
}

export interface SearchRequest extends ReadOptions {
  collection: string
  /** Either a vector or a text. */
  vector?: number[] | Float32Array | undefined
  text?: string | undefined
  limit?: number
  scoreThreshold?: number
  filter?: Filter
  withPayload?: boolean
  withVector?: boolean
}

export interface Hit {
  id: string
  score: number
  payload?: { [key: string]: JsonValue }
  vector?: number[]
  /** When it expires, an ISO time; absent for a point that stays. */
  expires_at?: string
}

export interface RecallOptions extends ReadOptions {
  /** Default 10. */
  limit?: number
  /** Hits below this score are left out. */
  scoreThreshold?: number
  /** One that asks for the tag `auth` or `vector`, or for an `operation`, gets audit notes, too. */
  filter?: Filter
}

export interface SearchAnswer {
  results: Hit[]
  took_ms: number
  records_scanned: number
  /** Where another embedder made some of the hits than the question. */
  warnings?: string[]
}

export interface SearchPgRequest extends ReadOptions {
  /** Default `embeddings`: the points of all collections. */
  table?: string
  vector: number[] | Float32Array
  limit?: number
  /** For example `collection = 'knowledgebase' AND status = 'active' AND 'runbook' = ANY(tags)`. */
  filterSql?: string
  withPayload?: boolean
  withVector?: boolean
}

export interface PgHit extends Hit {
  /** Absent when the table has no such column. */
  collection?: string
}

export interface SearchPgAnswer {
  results: PgHit[]
  took_ms: number
  records_scanned: number
}

export interface ScrollRequest extends ReadOptions {
  collection: string
  limit?: number
  offset?: string
  filter?: Filter
  /** By the payload's `updated_at`, points without such a time last. Default: by id. */
  orderBy?: { key: 'updated_at'; direction?: 'asc' | 'desc' }
  withPayload?: boolean
  withVector?: boolean
}

export interface ScrolledPoint {
  id: string
  payload?: { [key: string]: JsonValue }
  vector?: number[]
  /** When it expires, an ISO time; absent for a point that stays. */
  expires_at?: string
}

export interface ScrollAnswer {
  points: ScrolledPoint[]
  next_offset: string | null
}

export interface WriteOptions {
  /** Wait until the vector engine holds it (at most ten seconds). */
  wait?: boolean
  signal?: AbortSignal
}

export interface UpsertOptions extends WriteOptions {
  /** Makes the upsert safe to repeat: it is then retried. */
  idempotencyKey?: string
}

export interface AcceptedOperation {
  operation_id: string
  status: 'accepted' | 'applied'
  collection: string
  points: number
}

export interface AcceptedDeletion extends AcceptedOperation {
  /** Points that matched. */
  deleted: number
  more: boolean
}

export interface ChangedPayloads extends AcceptedOperation {
  /** Ids without a point. */
  unknown: number
}

/** At least one of the two. The `text` of a point cannot be changed this way. */
export interface PayloadChange {
  /** Keys of the payload, with their new values. */
  set?: { [key: string]: JsonValue }
  /** Keys that are taken away. */
  remove?: readonly string[]
}

export interface OperationState {
  operation_id: string
  status: 'accepted' | 'applied' | 'failed'
  error?: string
}

export interface ComponentHealth {
  status: 'pass' | 'fail' | 'none'
  latency_ms: number | null
}

export interface Health {
  /** `degraded`: the relational engine alone is away. */
  status: 'pass' | 'degraded' | 'fail'
  components: Record<'proxy' | 'api' | 'vector_engine' | 'relational_engine' | 'event_log', ComponentHealth>
}

export interface Stats {
  collections: {
    collection: string
    points: number
    index_bytes: number
    index_status: 'ready' | 'indexing' | 'rebuilding' | 'unavailable'
    /** 0..1: the share of points that the graph index serves; the rest is scanned. */
    indexed_share: number
  }[]
  /** Counts the searches that this gateway answered within the window. */
  search: { p95_ms: number | null; requests: number; window_s: number }
  as_of: string
}

export interface AgentDebug {
  agent_id: string
  role: string
  access: string
  tier: string
  /** Gateway keys that are valid now, by their first six random characters. */
  sessions: { key: string; created_at: string; expires_at: string }[]
  /** The last 50 at all gateways, the newest first. */
  operations: {
    operation: string
    collection: string | null
    outcome: string
    status_code: number | null
    took_ms: number | null
    request_id: string
    occurred_at: string
    count: number
  }[]
  /** null: unlimited, or not counted. */
  quota: {
    day: { limit: number | null; used: number | null; remaining: number | null; resets_at: string }
    burst: { limit: number | null }
    concurrent: { limit: number | null; running: number | null }
  }
}

export interface Embeddings {
  object: 'list'
  data: { object: 'embedding'; index: number; embedding: number[] }[]
  model: string
  usage: { prompt_tokens: number; total_tokens: number }
}

type FiredKind = 'task.completed' | 'task.failed' | 'agent.spawned' | 'agent.terminated'

export interface WebhookEvent {
  /** `task.input_required` is fired by the platform alone. */
  event: FiredKind | 'task.input_required'
  agent: string
  task_id: string
  result: { [key: string]: JsonValue }
  /** Unix time in seconds. */
  ts: number
  /** `<agent>-<task_id>-<event>` */
  idempotency_key: string
}

/** Without `ts` the time is now; without `idempotency_key` the key is made of the other fields. */
export type FiredEvent = { event: FiredKind } & Pick<WebhookEvent, 'agent' | 'task_id'> &
  Partial<Pick<WebhookEvent, 'ts' | 'idempotency_key' | 'result'>>

export interface FireOptions {
  /** Names of targets; without it every target whose `events` and `agents` lists match. */
  targets?: string[]
  signal?: AbortSignal
}

export interface FireAnswer {
  idempotency_key: string
  deliveries: { target: string; sequence: number }[]
}
