/** Problem documents (RFC 9457): their schema, and the one that a fault is answered with. */

import { type Static, type TSchema, Type } from 'typebox'
import type { ErrorEntry } from '#lib/error-codes/server.ts'
import { AppError, type ErrorCode, errorCodes } from '#lib/errors.ts'
import { type Later, meansLater } from '#lib/system-faults.ts'

export type Problem = Static<ReturnType<typeof problemSchema>>

export const problemContentType = 'application/problem+json'

/** The faults of a route whose clients expect another form than problem documents. */
export interface ProblemForm {
  contentType: string
  schema: TSchema & { title: string }
  /** The status that clients of this form expect of the code. */
  statusOf(code: ErrorCode, status: number): number
  of(problem: Problem): object
  headersOf?(error: AppError): Readonly<Record<string, string>>
}

/** Seconds named with a 503 that says nothing of its own. */
const retryAfterDefault = 1

const fieldError = Type.Object(
  { path: Type.String({ description: 'JSON Pointer of the faulty field.' }), message: Type.String() },
  { title: 'FieldError' },
)

/** Schema of a problem document with one of these codes. */
export function problemSchema(codes: readonly string[]) {
  return Type.Object(
    {
      type: Type.String({ description: 'A URN that names the kind of problem.' }),
      title: Type.String(),
      status: Type.Integer({ description: 'The HTTP status.' }),
      detail: Type.String({ description: 'What is wrong with this request, and what to do.' }),
      // Clients of today must read the codes of tomorrow.
      code: Type.Union([Type.Enum([...codes], { type: 'string', title: 'ErrorCode' }), Type.String()], {
        description:
          'Stable: match on this. More codes may come; of one that is not known the status counts.',
      }),
      request_id: Type.String({ description: 'Finds the request in the logs.' }),
      retryAfter: Type.Optional(Type.Number({ description: 'Seconds after which trying again helps.' })),
      errors: Type.Optional(Type.Array(fieldError, { description: 'The faulty fields, at most 20.' })),
    },
    { title: 'Problem', description: 'RFC 9457 problem document.' },
  )
}

/** Fastify's own faults that callers may meet. */
const frameworkFaults: Record<string, () => AppError> = {
  FST_ERR_CTP_BODY_TOO_LARGE: () => new AppError('payload_too_large', 'Send a smaller body.'),
  FST_ERR_CTP_INVALID_MEDIA_TYPE: () =>
    new AppError('unsupported_media_type', 'Send the body with Content-Type: application/json.'),
  FST_ERR_CTP_INVALID_CONTENT_LENGTH: () =>
    new AppError('bad_request', 'The body is shorter or longer than its Content-Length.'),
  FST_ERR_BAD_URL: () => new AppError('bad_request', 'The address is not validly percent-encoded.'),
  FST_ERR_MAX_PARAM_LENGTH: () => new AppError('not_found', 'There is nothing at this address.'),
}

/**
 * The AppError that a caller is answered. A fault of SQL or of the system that says "later" is a 503; what else is not made
 * for callers becomes `internal_error`.
 */
export function publicError(error: unknown): AppError {
  if (error instanceof AppError && isForCallers(error)) return withWait(error)
  const later = meansLater(error)
  if (later !== null) return unavailableNow(later, error)
  if (error instanceof AppError) return internalError(error)
  const { code, statusCode } = (error ?? {}) as { code?: string; statusCode?: number }
  const known = code === undefined ? undefined : frameworkFaults[code]
  if (known) return known()
  if (statusCode !== undefined && statusCode >= 400 && statusCode < 500) {
    return new AppError('bad_request', 'The request is malformed.', { statusCode })
  }
  return internalError(error)
}

export function problemOf(error: AppError, requestId: string): Problem {
  return {
    type: `urn:flotilla:problem:${error.code}`,
    title: error.title,
    status: error.statusCode,
    detail: error.message,
    code: error.code,
    request_id: requestId,
    ...(error.retryAfter === undefined ? {} : { retryAfter: error.retryAfter }),
    ...(error.errors === undefined ? {} : { errors: error.errors }),
    ...error.members,
  }
}

/** Codes of 500 speak to operators (configuration, topics): their text stays in the log. */
function isForCallers(error: AppError): boolean {
  return error.statusCode !== 500
}

/** Drivers word their own 503s: callers get the code's sentence instead, and a time to wait where waiting helps. */
function withWait(error: AppError): AppError {
  const { waits = false }: ErrorEntry = errorCodes[error.code]
  if (error.statusCode !== 503 || !waits) return error
  const retryAfter = error.retryAfter ?? retryAfterDefault
  const ownWords = !error.code.endsWith('_unavailable')
  return new AppError(error.code, ownWords ? error.message : `${error.title}. Try again.`, {
    retryAfter,
    ...(error.members ? { members: error.members } : {}),
    cause: error,
  })
}

function unavailableNow(later: Later, cause: unknown): AppError {
  const code = later === 'machine' ? 'storage_unavailable' : 'relational_engine_unavailable'
  return withWait(new AppError(code, errorCodes[code].title, { cause }))
}

function internalError(cause: unknown): AppError {
  const message = `${errorCodes.internal_error.title}. The request id finds it in the log.`
  return new AppError('internal_error', message, { cause })
}
