/** The ids that follow a request through the log: taken from its headers, or made. */

import type { FastifyRequest } from 'fastify'
import { newEventId } from '#lib/event-id.ts'
import { randomHex } from '#lib/random-hex.ts'
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
