/** A problem document of the platform, as an error that callers can match on. */

export interface FieldError {
  path: string
  message: string
}

export interface Problem {
  code: string
  status: number
  detail: string
  requestId: string | undefined
  /** Seconds after which trying again helps. */
  retryAfter: number | undefined
  errors: FieldError[]
  /** Every member of the problem document, also those of one code alone. */
  members?: Readonly<Record<string, unknown>>
}

/**
 * Thrown for every answer that is not a success. `code` is stable: match on it. Without an answer the code is
 * `no_answer` (the connection failed), `timeout`, `closed`, `no_credential` or `invalid_answer`,
 * and the status 0.
 */
export class ProblemError extends Error {
  readonly code: string
  readonly status: number
  readonly requestId: string | undefined
  readonly retryAfter: number | undefined
  readonly errors: FieldError[]
  readonly members: Readonly<Record<string, unknown>>

  constructor(problem: Problem, cause?: unknown) {
    super(`${problem.code}: ${problem.detail}`, cause === undefined ? undefined : { cause })
    this.name = 'ProblemError'
    this.code = problem.code
    this.status = problem.status
    this.requestId = problem.requestId
    this.retryAfter = problem.retryAfter
    this.errors = problem.errors
    this.members = problem.members ?? {}
  }
}

/** The error of an answer that is not 2xx, also when a proxy in between wrote it. */
export async function problemOfResponse(response: Response): Promise<ProblemError> {
  const text = await response.text().catch(() => '')
  const body = parseObject(text)
  const retryAfter =
    numberOf(body.retryAfter) ?? numberOf(Number(response.headers.get('retry-after') ?? Number.NaN))
  return new ProblemError({
    code: textOf(body.code) ?? `http_${response.status}`,
    status: response.status,
    detail: textOf(body.detail) ?? textOf(ofGoogle(body).message) ?? `the answer was ${response.status}`,
    requestId: response.headers.get('x-request-id') ?? undefined,
    retryAfter,
    errors: Array.isArray(body.errors) ? (body.errors as FieldError[]) : [],
    members: body,
  })
}

/**
 * Whether the service was away, so that trying again helps: it said so, gave no answer, or a proxy in front of it had none
 * (502 and above without a code of the platform).
 */
export function isAway({ status, code }: ProblemError): boolean {
  if (status === 0) return code === 'no_answer' || code === 'timeout'
  // A setting has switched it off: waiting does not help.
  if (code === 'mirror_off') return false
  return status === 503 || (status >= 502 && code === `http_${status}`)
}

/** `host`: with its port; what else is in an address may be secret. */
export function noAnswer(cause: unknown, host: string, timeoutMs: number): ProblemError {
  if (cause instanceof Error && cause.name === 'TimeoutError') {
    return ownProblem('timeout', `no answer from ${host} within ${timeoutMs} ms`, cause)
  }
  const code = codeOf(cause)
  const reason = code === undefined ? '' : ` (${code})`
  return ownProblem('no_answer', `the connection to ${host} failed before an answer came${reason}`, cause)
}

/** The system's code, for example ECONNREFUSED: fetch has it at the cause of its error. */
function codeOf(error: unknown): string | undefined {
  const { code, cause } = (error ?? {}) as { code?: unknown; cause?: unknown }
  if (typeof code === 'string' && /^\w{1,40}$/.test(code)) return code
  return cause === undefined ? undefined : codeOf(cause)
}

export function closed(): ProblemError {
  return ownProblem('closed', 'the client was closed')
}

type OwnCode = 'timeout' | 'no_answer' | 'closed' | 'stream_ended' | 'no_credential' | 'invalid_answer'

/** A fault that no server answered. */
export function ownProblem(code: OwnCode, detail: string, cause?: unknown) {
  return new ProblemError(
    { code, status: 0, detail, requestId: undefined, retryAfter: undefined, errors: [] },
    cause,
  )
}

/** Identity providers that speak Google's Identity Toolkit answer `{error: {message}}`. */
function ofGoogle({ error }: Record<string, unknown>): Record<string, unknown> {
  return typeof error === 'object' && error !== null ? (error as Record<string, unknown>) : {}
}

function textOf(value: unknown): string | undefined {
  return typeof value === 'string' ? value : undefined
}

function parseObject(text: string): Record<string, unknown> {
  try {
    const value: unknown = JSON.parse(text)
    return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : {}
  } catch {
    return {}
  }
}

function numberOf(value: unknown): number | undefined {
  return typeof value === 'number' && Number.isFinite(value) ? value : undefined
}
