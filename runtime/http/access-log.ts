/** Writes one wide log line and one histogram sample for each finished request, and counts those over a limit by code. */

import type { FastifyInstance } from 'fastify'
import type { Logger } from 'pino'
import { Counter, Histogram, type Registry } from 'prom-client'
import { sharedMetric } from '../observe/metrics.ts'

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
  const durations = durationsIn(options.metrics)
  const limited = limitedIn(options.metrics)
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
          bytes_in: request.headers['content-length'],
          took_ms: Math.round(tookMs * 100) / 100,
        },
        'http.request',
      )
    }
    done()
  })
}

function durationsIn(registry: Registry): Histogram<'service' | 'method' | 'route' | 'status'> {
  return sharedMetric(
    registry,
    'http_request_duration_seconds',
    (common) =>
      new Histogram({
        ...common,
        help: 'Time from the first byte of a request to the last of its answer',
        labelNames: ['service', 'method', 'route', 'status'],
        buckets: [0.001, 0.0025, 0.005, 0.01, 0.023, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10],
      }),
  )
}

function limitedIn(registry: Registry): Counter<'service' | 'code'> {
  const help = 'Requests that were answered 429, by the code of the answer'
  return sharedMetric(
    registry,
    'http_limited_requests_total',
    (common) => new Counter({ ...common, help, labelNames: ['service', 'code'] }),
  )
}
