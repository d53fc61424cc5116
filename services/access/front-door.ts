/** The front door of an ingress: caller, role, limits and trail. */

import type { FastifyInstance } from 'fastify'
import { audit } from './audit/trail/audit.ts'
import type { AuditTrail } from './audit/trail/trail.ts'
import type { CredentialCheck } from './callers/credentials.ts'
import { limitRate } from './limits/limit-rate.ts'
import type { Limiter } from './limits/limiter.ts'

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
