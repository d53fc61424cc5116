/**
 * What every request gets: ids that follow it through the log, taken from the request or made; headers that keep its answer
 * what it is and with its caller; one wide log line and one histogram sample at its end.
 */

import type { FastifyInstance, FastifyRequest } from 'fastify'
import type { Logger } from 'pino'
import { Counter, Histogram, type Registry } from 'prom-client'
import { newEventId, randomHex } from '#lib/ids.ts'
import { sharedMetric } from '../observe/metrics.ts'
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

/** Asked for every few seconds by machines: not worth a line. */
const quiet = new Set(['/livez', '/readyz', '/metrics'])

export function isQuiet(route: string): boolean {
  return quiet.has(route)
}

export function registerAccessLog(
  app: FastifyInstance,
  options: { name: string; log: Logger; metrics: Registry },
): void {
  const { name, log } = options
  const durations = sharedMetric(
    options.metrics,
    'http_request_duration_seconds',
    (common) =>
      new Histogram({
        ...common,
        help: 'Time from the first byte of a request to the last of its answer',
        labelNames: ['service', 'method', 'route', 'status'],
        buckets: [0.001, 0.0025, 0.005, 0.01, 0.023, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10],
      }),
  )
  const help = 'Requests that were answered 429, by the code of the answer'
  const limited = sharedMetric(
    options.metrics,
    'http_limited_requests_total',
    (common) => new Counter({ ...common, help, labelNames: ['service', 'code'] }),
  )
  app.addHook('onResponse', (request, reply, done) => {
    const route = request.routeOptions.url ?? 'none'
    const tookMs = reply.elapsedTime
    durations.observe(
      { service: name, method: request.method, route, status: reply.statusCode },
      tookMs / 1_000,
    )
    if (reply.statusCode === 429) limited.inc({ service: name, code: request.problemCode ?? 'none' })
    if (!quiet.has(route)) {
      log.info(
        {
          request_id: request.id,
          traceparent: request.traceparent,
          trace_id: request.span ? request.traceparent.slice(3, 35) : undefined,
          method: request.method,
          route,
          status: reply.statusCode,
          code: request.problemCode ?? undefined,
          agent: request.agentId ?? undefined,
          address: request.ip,
          browser: request.headers['sec-fetch-site'] === 'same-origin' || undefined,
          bytes_in: request.headers['content-length'],
          took_ms: Math.round(tookMs * 100) / 100,
        },
        'http.request',
      )
    }
    done()
  })
}
