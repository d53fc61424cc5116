/** Adds Google's `error` object to the problem documents of a scope: clients of both kinds read the same answer. */

import type { FastifyInstance } from 'fastify'
import type { Problem } from '#runtime/http/problem.ts'

export function addGoogleErrors(scope: FastifyInstance): void {
  scope.addHook('onSend', (_request, reply, payload, done) => {
    if (reply.statusCode < 400 || typeof payload !== 'string') return done(null, payload)
    const problem = JSON.parse(payload) as Problem
    done(null, JSON.stringify({ ...problem, error: errorOf(problem) }))
  })
}

function errorOf({ status, code, detail }: Problem) {
  const message = messageOf(code, detail)
  return {
    code: status,
    message,
    errors: [{ message, reason: 'invalid', domain: 'global' }],
  }
}

/** Google's words, where it has some for the code. */
const googles: Readonly<Record<string, string>> = {
  not_found: 'OPERATION_NOT_ALLOWED',
  method_not_allowed: 'OPERATION_NOT_ALLOWED',
}

/** Those of the provider itself are Google's already. */
function messageOf(code: string, detail: string): string {
  if (code === 'identity_refused') return detail
  if (code === 'rate_limited') return 'TOO_MANY_ATTEMPTS_TRY_LATER'
  return `${googles[code] ?? code.toUpperCase()} : ${detail}`
}
