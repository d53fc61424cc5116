/** Problem documents (RFC 9457): their schema, and the one that a fault is answered with. */

import { type TSchema, Type } from 'typebox'
import { AppError, errorCodes, type FieldError } from '#lib/errors.ts'

export interface Problem {
  type: string
  title: string
  status: number
  detail: string
  code: string
  request_id: string
  retryAfter?: number
  errors?: FieldError[]
}

export const problemContentType = 'application/problem+json'

/** Seconds named with a 503 that says nothing of its own. */
const retryAfterDefault = 1

export const problemSchema = Type.Object(
  {
    type: Type.String({ description: 'A URN that names the kind of problem.' }),
    title: Type.String(),
    status: Type.Integer(),
    detail: Type.String(),
    code: Type.String({ description: 'Stable snake_case code: match on this.' }),
    request_id: Type.String(),
    retryAfter: Type.Optional(Type.Number({ description: 'Seconds after which trying again helps.' })),
    errors: Type.Optional(
      Type.Array(
        Type.Object({
          path: Type.String({ description: 'JSON Pointer of the faulty field.' }),
          message: Type.String(),
        }),
      ),
    ),
  },
  {
    $id: 'Problem',
    title: 'Problem',
    description: 'RFC 9457 problem document.',
    examples: [
      {
        type: 'urn:flotilla:problem:validation_failed',
        title: 'The request is not valid',
        status: 422,
        detail: 'Correct the fields that are named in errors.',
        code: 'validation_failed',
        request_id: '0190b8a2-7f6e-7c3a-9d51-0f2f6f0f9a11',
        errors: [{ path: '/points/3/vector', message: 'must have 1536 numbers' }],
      },
    ],
  },
)

/** Response schemas for a route's faults: `problemResponses({ 404: 'The collection does not exist.' })`. */
export function problemResponses(descriptions: Record<number, string>): Record<number, TSchema> {
  return Object.fromEntries(
    Object.entries(descriptions).map(([status, description]) => [
      status,
      // OpenAPI's form, which names a content type: Fastify reads it, but its types know plain schemas alone.
      {
        description,
        content: { [problemContentType]: { schema: { $ref: 'Problem#' } } },
      } as unknown as TSchema,
    ]),
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

/** The AppError that a caller is answered. What is not made for callers becomes `internal_error`. */
export function publicError(error: unknown): AppError {
  if (error instanceof AppError) return isForCallers(error) ? withWait(error) : internalError(error)
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
  }
}

/** Codes of 500 speak to operators (configuration, topics): their text stays in the log. */
function isForCallers(error: AppError): boolean {
  return error.statusCode !== 500
}

/** Drivers word their own 503s: callers get the code's sentence instead, and always a time to wait. */
function withWait(error: AppError): AppError {
  if (error.statusCode !== 503) return error
  const retryAfter = error.retryAfter ?? retryAfterDefault
  const ownWords = !error.code.endsWith('_unavailable')
  return new AppError(error.code, ownWords ? error.message : `${error.title}. Try again.`, {
    retryAfter,
    cause: error,
  })
}

function internalError(cause: unknown): AppError {
  return new AppError(
    'internal_error',
    `${errorCodes.internal_error.title}. The request id finds it in the log.`,
    {
      cause,
    },
  )
}
