/**
 * The headers that every request and its answer have: ids that follow it through the log, taken from the request or made, and
 * what keeps an answer what it is and with its caller.
 */

import type { FastifyInstance, FastifyRequest } from 'fastify'
import { newEventId, randomHex } from '#lib/ids.ts'
import { isTraceparent } from '../observe/tracing/tracing.ts'
import { headerNames } from '../publish/messages.ts'

const visibleAscii = /^[\x21-\x7e]{1,128}$/

/** The caller's X-Request-Id when it has 1 to 128 visible ASCII characters, else a new one. */
export function requestIdOf(request: { headers: Record<string, string | string[] | undefined> }): string {
  const given = request.headers['x-request-id']
  return typeof given === 'string' && visibleAscii.test(given) ? given : newEventId()
}

/** The caller's traceparent when it is valid. */
export function givenTraceparent(given: string | string[] | undefined): string | undefined {
  return isTraceparent(given) ? given : undefined
}

/** The caller's traceparent when it is valid, else the root of a new trace that nobody samples. */
export function traceparentOf(given: string | string[] | undefined): string {
  const valid = givenTraceparent(given)
  if (valid !== undefined) return valid
  const random = randomHex(24)
  return `00-${random.slice(0, 32)}-${random.slice(32)}-00`
}

/** Headers that let one id find the whole way of a request through the log. */
export function recordHeaders(request: Pick<FastifyRequest, 'id' | 'traceparent'>): Record<string, string> {
  return { [headerNames.requestId]: request.id, [headerNames.traceparent]: request.traceparent }
}

export const nosniff = { 'x-content-type-options': 'nosniff' } as const

/** A route that sets its own Cache-Control keeps it. */
export function registerRequestHeaders(app: FastifyInstance): void {
  app.addHook('onRequest', (request, reply, done) => {
    request.traceparent = traceparentOf(request.headers.traceparent)
    reply.header('x-request-id', request.id)
    reply.header('traceparent', request.traceparent)
    done()
  })
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
  return routeOptions.config?.credential !== undefined
}
