/** Refusals of the main API as errors that pages can show. */

interface ProblemDocument {
  title?: string
  detail?: string
  code?: string
  status?: number
  request_id?: string
  retryAfter?: number
  errors?: { path: string; message: string }[]
}

export class Problem extends Error {
  readonly title: string
  readonly code: string
  /** 0: there was no answer. */
  readonly status: number
  readonly requestId: string | null
  readonly retryAfter: number | null
  readonly errors: readonly { path: string; message: string }[]

  constructor(status: number, document: ProblemDocument, options?: ErrorOptions) {
    super(document.detail ?? document.title ?? `The answer was ${status}.`, options)
    this.name = 'Problem'
    this.title = document.title ?? 'That did not work'
    this.code = document.code ?? 'unknown'
    this.status = status
    this.requestId = document.request_id ?? null
    this.retryAfter = document.retryAfter ?? null
    this.errors = document.errors ?? []
  }

  /** The message for one field of a form; its path is that of the body. */
  of(field: string): string | undefined {
    return this.errors.find(({ path }) => path === `/${field}` || path.startsWith(`/${field}/`))?.message
  }
}

/** Reads the problem document of an answer that is not ok. */
export async function problemOf(response: Response): Promise<Problem> {
  const document = (await response.json().catch(() => ({}))) as ProblemDocument
  return new Problem(response.status, document)
}

/** For whatever was thrown. */
export function asProblem(error: unknown): Problem {
  if (error instanceof Problem) return error
  const reason = error instanceof Error ? error.message : String(error)
  const detail = `The platform did not answer: ${reason}`
  return new Problem(0, { title: 'No answer', detail, code: 'no_answer' }, { cause: error })
}
