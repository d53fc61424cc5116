/**
 * The front door of an ingress: caller, role, limits and trail. `openAccess` opens what it needs, for an ingress that registers
 * `access` and answers within `withAudit` and `idempotent`.
 */

import type { FastifyInstance, FastifyRequest } from 'fastify'
import type { AppError } from '#lib/errors.ts'
import { openTogether } from '#lib/resource.ts'
import { describeScope } from '#runtime/http/api/facts.ts'
import { problemFor } from '#runtime/http/errors.ts'
import type { ServiceContext } from '#runtime/start/service.ts'
import { type AuditTrail, beginAudit, openAuditTrail, operationOf } from './audit/trail/audit.ts'
import { type CredentialCheck, openGatewayKeys } from './callers/credentials.ts'
import { type Limiter, limitRate, openLimiter } from './limits/limiter.ts'

interface FrontDoor {
  /** `requireGatewayKey`, `requireToken` or `requireKeyOrToken`. */
  credential: CredentialCheck
  /** What else is asked of the caller before the request counts, such as a role. */
  roles?: (scope: FastifyInstance) => void
  /** Each request is one operation of its caller. Absent: it costs nothing. */
  limits?: Limiter
  /** Failed requests leave audit records. Absent: none. */
  trail?: AuditTrail
}

/**
 * Registers on `scope`, in the one order that is right, what each of its requests passes before its body is read. The trail comes
 * first, so that what the others refuse is kept, too.
 */
export function access(scope: FastifyInstance, { credential, roles, limits, trail }: FrontDoor): void {
  if (trail) audit(scope, trail)
  credential(scope)
  roles?.(scope)
  if (limits) limitRate(scope, limits)
}

export type Access = Awaited<ReturnType<typeof openAccess>>

type AccessContext = Pick<
  ServiceContext<'eventLog' | 'relational', unknown>,
  'engines' | 'publisher' | 'log' | 'metrics'
>

interface AccessOptions {
  /** Name of the service: its metrics begin with it. */
  name: string
  /** False: operations here take nothing of the agents' daily quota; burst and concurrency are shared with all. */
  daily?: boolean
}

/** Close it after the last answer. */
export function openAccess(context: AccessContext, options: AccessOptions) {
  const { engines, log, publisher } = context
  const { relational } = engines
  return openTogether(log, async (scope) => ({
    keys: scope.add('keys', await openGatewayKeys({ ...engines, publisher, log })),
    audit: scope.add('audit', openAuditTrail(context, options.name)),
    limiter: scope.add('limits', openLimiter({ relational, log }, options)),
    /** Where answers under an Idempotency-Key are kept. */
    relational,
    log,
  }))
}

const collectionShownMax = 64

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
  { agentOf = ({ caller }) => caller?.agentId ?? null, collectionOf = namedCollection }: AuditedOptions = {},
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
    const entry =
      request.audit ??
      beginAudit(trail, request, { agentId: agentId as string, collection: collectionOf(request) })
    // The beginning must be in the log before any answer: where that fails, that is the answer.
    await entry.acknowledged
    entry.end(problem.code, problem.statusCode, reply.elapsedTime)
    throw error
  })
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
