/**
 * The front door of an ingress: caller, role, limits and trail. `openAccess` opens what it needs, for an ingress that registers
 * `access` and answers within `withAudit` and `idempotent`.
 */

import type { FastifyInstance } from 'fastify'
import type { Logger } from 'pino'
import type { Relational } from '#engines/relational/port.ts'
import { describeError } from '#lib/errors.ts'
import { type Closeable, createScope } from '#lib/resource.ts'
import type { ServiceContext } from '#runtime/start/service.ts'
import { audit } from './audit/trail/audit.ts'
import { type AuditTrail, openAuditTrail } from './audit/trail/trail.ts'
import type { CredentialCheck } from './callers/credentials.ts'
import { type GatewayKeys, openGatewayKeys } from './gateway-keys/gateway-keys.ts'
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

export interface Access extends Closeable {
  keys: GatewayKeys
  limiter: Limiter
  audit: AuditTrail
  /** Where answers under an Idempotency-Key are kept. */
  relational: Relational
  log: Logger
}

type AccessContext = Pick<
  ServiceContext<'eventLog' | 'relational', unknown>,
  'engines' | 'publisher' | 'log' | 'metrics' | 'instanceId'
>

interface AccessOptions {
  /** Name of the service: its metrics begin with it. */
  name: string
  /** False: operations here take nothing of the agents' daily quota; burst and concurrency are shared with all. */
  daily?: boolean
}

/** Close it after the last answer. */
export async function openAccess(context: AccessContext, options: AccessOptions): Promise<Access> {
  const { engines, log } = context
  const { relational } = engines
  const scope = createScope((part, error) =>
    log.error({ part, reason: describeError(error) }, 'service.close-failed'),
  )
  try {
    return {
      keys: scope.add('keys', await openGatewayKeys({ ...engines, publisher: context.publisher, log })),
      audit: scope.add('audit', openAuditTrail(context, options.name)),
      limiter: scope.add('limits', openLimiter({ ...context, relational }, options)),
      relational,
      log,
      close: () => scope.close(),
    }
  } catch (error) {
    await scope.close()
    throw error
  }
}
