/** Faults in the form of OpenAI's API, for the routes that its clients call: codes and messages are those of problem documents. */

import { Type } from 'typebox'
import type { AppError, ErrorCode } from '#lib/errors.ts'
import type { Problem, ProblemForm } from '#runtime/http/problem.ts'

const title = 'OpenAiError'

const failure = Type.Object(
  {
    error: Type.Object({
      message: Type.String({ description: 'The fault, and what to do.' }),
      type: Type.String({ examples: ['invalid_request_error'] }),
      code: Type.String({ description: 'Stable: `model_not_found`, or as in problem documents.' }),
      param: Type.Union([Type.String(), Type.Null()], { description: 'The field that is faulty.' }),
    }),
  },
  { title, description: 'A fault, as OpenAI’s API answers it.' },
)

/** OpenAI's clients know 400 where problem documents have 422. */
const statuses: Readonly<Record<number, number>> = { 422: 400 }
const types: Readonly<Record<number, string>> = {
  401: 'authentication_error',
  403: 'permission_error',
  429: 'rate_limit_error',
}

/** The clients send a request again by themselves, also after a run failed that may have had effects, or that goes on. */
const noRetry = { 'x-should-retry': 'false' }

export const openAiProblems: ProblemForm = {
  contentType: 'application/json',
  schema: { ...failure, title },
  statusOf: (_code, status) => statuses[status] ?? status,
  of: openAiError,
  headersOf: (error) => (isOfRun(error) && error.code !== 'node_unavailable' ? noRetry : {}),
}

function isOfRun({ members = {} }: AppError): boolean {
  return members.runId !== undefined
}

export function openAiError({
  status,
  code,
  detail,
  errors = [],
}: Pick<Problem, 'status' | 'code' | 'detail' | 'errors'>) {
  const [first] = errors
  const named = errors.map(({ path, message }) => `${paramOf(path)}: ${message}`).join('; ')
  return {
    error: {
      message: named === '' ? detail : `${named}.`,
      type: types[status] ?? (status < 500 ? 'invalid_request_error' : 'server_error'),
      code: (code as ErrorCode) === 'agent_not_found' ? 'model_not_found' : code,
      param: first ? paramOf(first.path) : code === 'agent_not_found' ? 'model' : null,
    },
  }
}

/** `/messages/0/content` as `messages[0].content`. */
function paramOf(path: string): string {
  return path
    .replace(/^\//, '')
    .replace(/\/(\d+)(?=\/|$)/g, '[$1]')
    .replaceAll('/', '.')
}
