/** Keeps secrets of the targets file out of what the relay writes of a request: its ids and its problem documents. */

import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { requestIdOf, traceparentOf } from '#runtime/http/request-headers.ts'
import { forgetSpan } from '#runtime/observe/tracing/tracing.ts'
import { containsSecret, redact } from '#services/access/secrets/redact.ts'

/**
 * Must be called before routes are added. An id of the caller that holds a secret is replaced before anything is logged or
 * published under it; texts of a refusal, which may name what the caller sent, lose theirs.
 */
export function keepSecretsOut(app: FastifyInstance, secrets: () => readonly string[]): void {
  const replaceIds = (request: FastifyRequest, reply: FastifyReply) => {
    if (containsSecret(request.id, secrets())) {
      request.id = requestIdOf({ headers: {} })
      reply.header('x-request-id', request.id)
    }
    if (containsSecret(request.traceparent, secrets())) {
      // Its span belongs to the trace that the caller named.
      if (request.span) forgetSpan(request.span, 'always')
      request.traceparent = traceparentOf(undefined)
      reply.header('traceparent', request.traceparent)
    }
  }
  app.addHook('onRequest', (request, reply, done) => {
    replaceIds(request, reply)
    done()
  })
  // A request that an earlier hook refused comes here alone; its line is logged afterwards.
  app.addHook('onSend', (request, reply, payload, done) => {
    replaceIds(request, reply)
    const isRefusal = reply.statusCode >= 400 && typeof payload === 'string'
    const isClean = !isRefusal || !containsSecret(payload, secrets())
    done(null, isClean ? payload : JSON.stringify(cleaned(JSON.parse(payload), secrets())))
  })
}

/** Every text in it, without secrets. */
function cleaned(value: unknown, secrets: readonly string[]): unknown {
  if (typeof value === 'string') return redact(value, secrets)
  if (Array.isArray(value)) return value.map((one) => cleaned(one, secrets))
  if (value === null || typeof value !== 'object') return value
  return Object.fromEntries(Object.entries(value).map(([name, one]) => [name, cleaned(one, secrets)]))
}
