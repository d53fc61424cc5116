/**
 * Every fault that may reach a caller: a code from the closed list in error-codes/, an HTTP status, and a sentence that names
 * fault and fix. API descriptions and docs/errors.md are made from the list, too.
 */

import { requestCodes } from './error-codes/requests.ts'
import { runCodes } from './error-codes/runs.ts'
import { type ErrorEntry, serverCodes } from './error-codes/server.ts'

export type { ErrorEntry } from './error-codes/server.ts'

/** The codes are part of the public interface: never rename one. Status 500: only operators see it, in a log or command. */
const catalog = { ...requestCodes, ...runCodes, ...serverCodes } as const

export type ErrorCode = keyof typeof catalog

export const errorCodes: Readonly<Record<ErrorCode, ErrorEntry>> = catalog

/** True for codes that callers of an interface may be answered: what else has status 500 is answered `internal_error`. */
export function isAnswered(code: ErrorCode): boolean {
  return errorCodes[code].status !== 500 || code === 'internal_error'
}

export interface FieldError {
  /** JSON Pointer of the faulty field, for example `/points/3/vector`. */
  path: string
  message: string
}

interface AppErrorOptions {
  /** Overrides the code's usual HTTP status. */
  statusCode?: number
  /** Seconds after which trying again helps. */
  retryAfter?: number
  errors?: FieldError[]
  /** Further members of the problem document. */
  members?: Readonly<Record<string, unknown>>
  cause?: unknown
  /** Names the engine that is away, where that is not the usual setting of the code. */
  setting?: string | undefined
}

/** A fault with a stable code. `message` is shown to callers: no secrets, no internals, never an engine's own text. */
export class AppError extends Error {
  readonly code: ErrorCode
  readonly statusCode: number
  readonly title: string
  readonly retryAfter: number | undefined
  readonly errors: FieldError[] | undefined
  readonly members: Readonly<Record<string, unknown>> | undefined
  readonly setting: string | undefined

  constructor(code: ErrorCode, message: string, options: AppErrorOptions = {}) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause })
    this.name = 'AppError'
    this.code = code
    this.statusCode = options.statusCode ?? errorCodes[code].status
    this.title = errorCodes[code].title
    this.retryAfter = options.retryAfter
    this.errors = options.errors
    this.members = options.members
    this.setting = options.setting
  }
}

/** A field of a request that breaks a rule of ours, `message` says which; an empty `field` is the whole. */
export function invalidField(field: string, message: string): AppError {
  const path = field === '' ? '' : `/${field}`
  return new AppError('validation_failed', `${field === '' ? 'It' : field} ${message}.`, {
    errors: [{ path, message }],
  })
}

/** There is no room for more now; `what` is the reason, a sentence without its end. */
export function overloaded(what: string, cause?: unknown): AppError {
  return new AppError('overloaded', `${what}; try again in a second.`, { retryAfter: 1, cause })
}

const unavailableCodes: ReadonlySet<string> = new Set([
  'log_unavailable',
  'vector_engine_unavailable',
  'relational_engine_unavailable',
  'registry_unavailable',
  'embedder_unavailable',
  'identity_unavailable',
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

/** What began it: the deepest cause of an error, or of the first of its errors. */
function rootCause(error: unknown, depth = 0): unknown {
  const { cause, errors } = (error ?? {}) as { cause?: unknown; errors?: unknown[] }
  const inner = cause ?? (Array.isArray(errors) ? errors[0] : undefined)
  return inner === undefined || inner === null || depth === 10 ? error : rootCause(inner, depth + 1)
}

/** A short text of any thrown thing, cut to `max` characters: engines put whole parameters into their messages. */
export function describeError(error: unknown, max = 300): string {
  // What WebAssembly throws at its exit has name and message, and is no Error.
  const { name = 'Error', message } = (error ?? {}) as Partial<Error>
  const text = typeof message === 'string' ? `${name}: ${message}` : String(error)
  return text.length > max ? `${text.slice(0, max)}…` : text
}

/** The setting that names the engine which is away. */
const settings: Partial<Record<ErrorCode, string>> = {
  log_unavailable: 'KAFKA_BROKERS',
  relational_engine_unavailable: 'DATABASE_URL',
  registry_unavailable: 'SCHEMA_REGISTRY_URL',
  vector_engine_unavailable: 'QDRANT_URL',
  embedder_unavailable: 'EMBEDDINGS_URL',
}

/** Fields of the log line of work that waits for an engine: the fault, its cause, and where to look. */
export function whyWaiting(error: unknown): { reason: string; cause?: string; hint: string } {
  const cause = rootCause(error)
  const [reason, setting] =
    error instanceof AppError
      ? [error.message, error.setting ?? settings[error.code]]
      : [describeError(error), undefined]
  const look = '`flotilla doctor` says what to correct'
  return {
    reason,
    ...(cause === error ? {} : { cause: describeError(cause) }),
    hint: setting === undefined ? look : `is ${setting} right, and does the server run? ${look}`,
  }
}
