/** Vector operations in, each with its audit records out, whatever the outcome. */

import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { toldFault } from '#runtime/http/errors.ts'
import { recordHeaders } from '#runtime/http.ts'
import { callerOf } from '#services/identity/gateway-keys/require-key.ts'
import type { AuditEntry, AuditTrail } from './trail.ts'

const collectionShownMax = 64

/** Publishes the beginning while `work` runs; resolves with its result once both are done. */
export async function audited<T>(
  gateway: { audit: AuditTrail },
  request: FastifyRequest,
  reply: FastifyReply,
  collection: string,
  work: () => Promise<T>,
): Promise<T> {
  const entry = begin(gateway, request, callerOf(request).agentId, collection)
  const [result] = await Promise.all([work(), entry.acknowledged])
  entry.end('ok', reply.statusCode, reply.elapsedTime)
  return result
}

/** Writes the audit records of requests that fail, and counts those that are refused in floods. */
export function registerAudit(scope: FastifyInstance, gateway: { audit: AuditTrail }): void {
  scope.setErrorHandler(async (error, request, reply) => {
    const operation = request.routeOptions.config.operation ?? 'unknown'
    const told = toldFault(error, request)
    if (!request.audit && (!request.caller || request.unmetered || told.statusCode === 429)) {
      gateway.audit.refused(request.caller?.agentId ?? null, operation, told.code, told.statusCode)
      throw error
    }
    const entry = request.audit ?? begin(gateway, request, callerOf(request).agentId, collectionOf(request))
    // The beginning must be in the log before any answer: where that fails, that is the answer.
    await entry.acknowledged
    entry.end(told.code, told.statusCode, reply.elapsedTime)
    throw error
  })
}

export function begin(
  gateway: { audit: AuditTrail },
  request: FastifyRequest,
  agentId: string,
  collection: string | null,
): AuditEntry {
  const entry = gateway.audit.begin({
    agentId,
    operation: request.routeOptions.config.operation ?? 'unknown',
    collection,
    requestId: request.id,
    headers: recordHeaders(request),
  })
  request.audit = entry
  return entry
}

/** What a faulty request named, if anything. */
function collectionOf(request: FastifyRequest): string | null {
  const named = fieldOf(request.body) ?? fieldOf(request.query)
  return named === undefined ? null : named.slice(0, collectionShownMax).toWellFormed()
}

function fieldOf(value: unknown): string | undefined {
  const collection = (value as { collection?: unknown } | null | undefined)?.collection
  return typeof collection === 'string' ? collection : undefined
}
