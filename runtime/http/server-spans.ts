/** A server span for each request: its parent is the caller's traceparent, and its own goes on with the request. */

import { type Span, SpanKind } from '@opentelemetry/api'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { endSpan, type Tracing, traceparentOf } from '../observe/tracing/tracing.ts'
import { givenTraceparent, isQuiet } from './request-headers.ts'

/** After the hook that sets the request's ids. Probes and metrics have no span. */
export function registerServerSpans(app: FastifyInstance, service: string, tracing: Tracing): void {
  app.addHook('onRequest', (request, reply, done) => {
    const route = request.routeOptions.url
    if (route !== undefined && isQuiet(route)) return done()
    const span = begin(tracing, service, request)
    request.traceparent = traceparentOf(span) ?? request.traceparent
    reply.header('traceparent', request.traceparent)
    if (!span.isRecording()) return done()
    request.span = span
    // Also where the caller goes before the end of the answer, as readers of streams do.
    reply.raw.once('close', () => end(span, request, reply))
    tracing.run([span], done)
  })
  // The body arrives as events of its socket, which know nothing of the request's work: from here on it runs again.
  app.addHook('preValidation', (request, _reply, done) => {
    if (request.span) tracing.run([request.span], done)
    else done()
  })
  app.addHook('onResponse', (request, reply, done) => {
    if (request.span) end(request.span, request, reply)
    done()
  })
}

/** The route and no path: a path may hold what a caller sent. */
function begin(tracing: Tracing, service: string, request: FastifyRequest): Span {
  const { method, protocol } = request
  const route = request.routeOptions.url
  return tracing.begin(route === undefined ? method : `${method} ${route}`, {
    kind: SpanKind.SERVER,
    traceparent: givenTraceparent(request.headers.traceparent),
    attributes: {
      'http.request.method': method,
      ...(route === undefined ? {} : { 'http.route': route }),
      'url.scheme': protocol,
      'flotilla.service': service,
    },
  })
}

function end(span: Span, request: FastifyRequest, { statusCode, raw }: FastifyReply): void {
  span.setAttributes({
    ...(raw.headersSent ? { 'http.response.status_code': statusCode } : {}),
    'flotilla.request_id': request.id,
    ...(request.agentId === null ? {} : { 'flotilla.agent': request.agentId }),
    ...(request.problemCode === null ? {} : { 'flotilla.problem': request.problemCode }),
  })
  // A refusal is the caller's fault, and no error of the server.
  endSpan(span, statusCode >= 500 ? (request.problemCode ?? String(statusCode)) : undefined)
}
