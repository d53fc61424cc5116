/**
 * Every fault that may reach a caller: a code from a closed list, an HTTP status, and a sentence that names fault
 * and fix.
 */

/** code → [HTTP status, title]. The codes are part of the public interface: never rename one. */
export const errorCodes = {
  invalid_json: [400, 'The body is not JSON'],
  invalid_filter: [400, 'The filter is not allowed'],
  unknown_target: [400, 'There is no such webhook target'],
  invalid_operation_id: [400, 'The operation id is not one of this platform'],
  bad_request: [400, 'The request is malformed'],
  unauthorized: [401, 'A valid credential is required'],
  unknown_agent: [401, 'The agent is not known'],
  invalid_signature: [401, 'The signature was not accepted'],
  forbidden: [403, 'Not allowed'],
  reserved_id: [403, 'The id belongs to the platform'],
  not_found: [404, 'Not found'],
  collection_not_found: [404, 'The collection does not exist'],
  table_not_found: [404, 'There is no such table to search'],
  point_not_found: [404, 'The point does not exist'],
  operation_not_found: [404, 'The operation is not known'],
  dead_letter_not_found: [404, 'The dead letter does not exist'],
  method_not_allowed: [405, 'The method is not allowed here'],
  conflict: [409, 'The request conflicts with the present state'],
  agent_exists: [409, 'The agent exists already'],
  idempotency_conflict: [409, 'The Idempotency-Key was used with another body'],
  idempotency_in_progress: [409, 'The first request with this Idempotency-Key is still running'],
  operation_failed: [409, 'The operation failed'],
  superseded: [409, 'A later record has taken its place'],
  group_active: [409, 'The consumer group has members'],
  payload_too_large: [413, 'The body is too large'],
  unsupported_media_type: [415, 'The content type is not supported'],
  secret_in_payload: [422, 'The payload holds a secret'],
  validation_failed: [422, 'The request is not valid'],
  rate_limited: [429, 'Too many requests'],
  too_many_concurrent: [429, 'Too many operations at once'],
  quota_exceeded: [429, "The day's operations are used up"],
  backlog_full: [429, 'Too many points are waiting to be applied'],
  internal_error: [500, 'An unexpected fault'],
  log_unavailable: [503, 'The event log does not answer'],
  vector_engine_unavailable: [503, 'The vector engine does not answer'],
  relational_engine_unavailable: [503, 'The relational engine does not answer'],
  registry_unavailable: [503, 'The schema registry does not answer'],
  embedder_unavailable: [503, 'The embedder does not answer'],
  query_timeout: [503, 'The query took too long'],
  not_yet_applied: [503, 'The operation is not applied yet'],
  overloaded: [503, 'Too much work is waiting'],
  shutting_down: [503, 'The service is stopping'],
  fenced: [500, 'Another one has taken its place'],
  invalid_configuration: [500, 'The configuration is not valid'],
  incompatible_schema: [500, 'The schema change is not compatible'],
  topic_mismatch: [500, 'A topic differs from the catalogue'],
  data_directory_in_use: [500, 'The data directory has another owner'],
} as const satisfies Record<string, readonly [number, string]>

export type ErrorCode = keyof typeof errorCodes

export interface FieldError {
  /** JSON Pointer of the faulty field, for example `/points/3/vector`. */
  path: string
  message: string
}

export interface AppErrorOptions {
  /** Overrides the code's usual HTTP status. */
  statusCode?: number
  /** Seconds after which trying again helps. */
  retryAfter?: number
  errors?: FieldError[]
  cause?: unknown
}

/** A fault with a stable code. `message` is shown to callers: no secrets, no internals, never an engine's own text. */
export class AppError extends Error {
  readonly code: ErrorCode
  readonly statusCode: number
  readonly title: string
  readonly retryAfter: number | undefined
  readonly errors: FieldError[] | undefined

  constructor(code: ErrorCode, message: string, options: AppErrorOptions = {}) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause })
    this.name = 'AppError'
    this.code = code
    this.statusCode = options.statusCode ?? errorCodes[code][0]
    this.title = errorCodes[code][1]
    this.retryAfter = options.retryAfter
    this.errors = options.errors
  }
}

const unavailableCodes: ReadonlySet<string> = new Set([
  'log_unavailable',
  'vector_engine_unavailable',
  'relational_engine_unavailable',
  'registry_unavailable',
  'embedder_unavailable',
  'overloaded',
])

/** True when the engine behind the call is away, so that waiting (and nothing else) helps. */
export function isUnavailable(error: unknown): error is AppError {
  return error instanceof AppError && unavailableCodes.has(error.code)
}

/** True when another one has taken over what the caller held; trying again as the same holder never helps. */
export function isFenced(error: unknown): error is AppError {
  return error instanceof AppError && error.code === 'fenced'
}

/** A short text of any thrown thing, cut to `max` characters: engines put whole parameters into their messages. */
export function describeError(error: unknown, max = 300): string {
  const text = error instanceof Error ? `${error.name}: ${error.message}` : String(error)
  return text.length > max ? `${text.slice(0, max)}…` : text
}
