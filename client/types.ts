/** Shapes of the vector gateway, as a client sees them. */

export type JsonValue = null | string | number | boolean | JsonValue[] | { [key: string]: JsonValue }

export interface Point {
  id: string
  vector: number[] | Float32Array
  payload?: { [key: string]: JsonValue }
}

export interface StoredPoint {
  id: string
  vector: number[]
  payload: { [key: string]: JsonValue }
}

export interface Filter {
  must: { key: string; match: { value: string | number | boolean } }[]
}

export interface ReadOptions {
  /** The answer reflects this operation. */
  after?: string
  signal?: AbortSignal
}

export interface SearchRequest extends ReadOptions {
  collection: string
  vector: number[] | Float32Array
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
}

export interface SearchAnswer {
  results: Hit[]
  took_ms: number
  records_scanned: number
}

export interface ScrollRequest extends ReadOptions {
  collection: string
  limit?: number
  offset?: string
  filter?: Filter
  withPayload?: boolean
  withVector?: boolean
}

export interface ScrolledPoint {
  id: string
  payload?: { [key: string]: JsonValue }
  vector?: number[]
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
  status: 'pass' | 'fail'
  components: Record<'proxy' | 'api' | 'vector_engine' | 'relational_engine' | 'event_log', ComponentHealth>
}

export interface Embeddings {
  object: 'list'
  data: { object: 'embedding'; index: number; embedding: number[] }[]
  model: string
  usage: { prompt_tokens: number; total_tokens: number }
}

export interface WebhookEvent {
  event: 'task.completed' | 'task.failed' | 'agent.spawned' | 'agent.terminated'
  agent: string
  task_id: string
  result: { [key: string]: JsonValue }
  /** Unix time in seconds. */
  ts: number
  /** `<agent>-<task_id>-<event>` */
  idempotency_key: string
}

/** Of what is absent, the time is now and the key is made of the other fields. */
export type FiredEvent = Omit<WebhookEvent, 'ts' | 'idempotency_key' | 'result'> &
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
