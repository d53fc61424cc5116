/** Makes the operations of an ingress leave audit records, whatever their outcome. */

import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import type { AppError } from '#lib/errors.ts'
import { describeScope } from '#runtime/http/api/facts.ts'
import { recordHeaders } from '#runtime/http/app.ts'
import { problemFor } from '#runtime/http/errors.ts'
import { callerOf } from '#services/access/callers/caller.ts'
import type { AuditEntry, AuditTrail } from './trail.ts'

declare module 'fastify' {
  interface FastifyRequest {
    /** The audit entry of this request, once it has begun. */
    audit: AuditEntry | null
  }
  interface FastifyContextConfig {
    /** Name of the operation in audit notes, and in the scope of Idempotency-Keys. */
    operation?: string
  }
}

const collectionShownMax = 64

/** What an operation is about; its agent is the caller where nothing else is said. */
interface AuditSubject {
  agentId?: string
  collection?: string | null
}

/** Publishes the beginning while `work` runs; resolves with its result once both are done. */
export async function withAudit<T>(
  { audit: trail }: { audit: AuditTrail },
  request: FastifyRequest,
  reply: FastifyReply,
  { agentId, collection = null }: AuditSubject,
  work: () => Promise<T>,
): Promise<T> {
  const entry = begin(trail, request, agentId ?? callerOf(request).agentId, collection)
  const [result] = await Promise.all([work(), entry.acknowledged])
  entry.end('ok', reply.statusCode, reply.elapsedTime)
  return result
}

interface AuditedOptions {
  /** The agent of the platform that a failed request belongs to; null: of none. Default: the caller. */
  agentOf?(request: FastifyRequest, problem: AppError): string | null | Promise<string | null>
  /** Default: the `collection` that body or query name. */
  collectionOf?(request: FastifyRequest): string | null
}

/**
 * Writes the audit records of failed requests of `scope`, and only counts those that a flood may consist of: 429, what a
 * limit refused, and callers that are no agent of the platform. What succeeds is audited by `withAudit`.
 */
export function audit(
  scope: FastifyInstance,
  trail: AuditTrail,
  { agentOf = agentOfCaller, collectionOf = namedCollection }: AuditedOptions = {},
): void {
  if (!scope.hasRequestDecorator('audit')) scope.decorateRequest('audit', null)
  describeScope(scope, { problems: ['log_unavailable'] })
  scope.setErrorHandler(async (error, request, reply) => {
    const problem = problemFor(error, request)
    const agentId = await agentOf(request, problem)
    if (!request.audit && (agentId === null || request.unmetered || problem.statusCode === 429)) {
      trail.refused(agentId, operationOf(request), problem.code, problem.statusCode)
      throw error
    }
    // Where it has begun already, its agent and collection are known.
    const entry = request.audit ?? begin(trail, request, agentId as string, collectionOf(request))
    // The beginning must be in the log before any answer: where that fails, that is the answer.
    await entry.acknowledged
    entry.end(problem.code, problem.statusCode, reply.elapsedTime)
    throw error
  })
}

export function operationOf(request: FastifyRequest): string {
  return request.routeOptions.config.operation ?? 'unknown'
}

function begin(
  trail: AuditTrail,
  request: FastifyRequest,
  agentId: string,
  collection: string | null,
): AuditEntry {
  const entry = trail.begin({
    agentId,
    operation: operationOf(request),
    collection,
    requestId: request.id,
    headers: recordHeaders(request),
  })
  request.audit = entry
  return entry
}

function agentOfCaller(request: FastifyRequest): string | null {
  return request.caller?.agentId ?? null
}

/** What a faulty request named, if anything. */
function namedCollection(request: FastifyRequest): string | null {
  const named = fieldOf(request.body) ?? fieldOf(request.query)
  return named === undefined ? null : named.slice(0, collectionShownMax).toWellFormed()
}

function fieldOf(value: unknown): string | undefined {
  const collection = (value as { collection?: unknown } | null | undefined)?.collection
  return typeof collection === 'string' ? collection : undefined
}
