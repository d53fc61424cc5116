/** Headers of every answer: it is what its type says, and what depends on the caller is kept by nobody. */

import type { FastifyInstance, FastifyRequest } from 'fastify'
import { credentialOf } from './api/facts.ts'

export const nosniff = { 'x-content-type-options': 'nosniff' } as const

/** A route that sets its own Cache-Control keeps it. */
export function registerAnswerHeaders(app: FastifyInstance): void {
  app.addHook('onSend', (request, reply, payload, done) => {
    reply.headers(nosniff)
    if (!reply.hasHeader('cache-control') && dependsOnCaller(request)) {
      reply.header('cache-control', 'private, no-store')
    }
    done(null, payload)
  })
}

function dependsOnCaller({ headers, routeOptions }: FastifyRequest): boolean {
  if (headers.authorization !== undefined || headers.cookie !== undefined) return true
  // What it refuses without one is no answer for the next caller either.
  return credentialOf(routeOptions.config ?? {}) !== undefined
}
