/**
 * What the front door of an ingress needs, opened at once: the gateway keys, the limits, and the audit of what callers do. An
 * ingress then registers `access`, and answers within `withAudit` and `idempotent`.
 */

import type { Logger } from 'pino'
import type { Relational } from '#engines/relational/port.ts'
import { describeError } from '#lib/errors.ts'
import { type Closeable, createScope } from '#lib/resource.ts'
import type { ServiceContext } from '#runtime/start/service.ts'
import { type AuditTrail, openAuditTrail } from '#services/access/audit/trail/trail.ts'
import { type Limiter, openLimiter } from '#services/access/limits/limiter.ts'
import { type GatewayKeys, openGatewayKeys } from '../gateway-keys/gateway-keys.ts'

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
  /** Of the service: the beginning of its metrics' names. */
  name: string
  /** False: operations here take nothing of the agents' daily quota; burst and concurrency are shared with all. */
  daily?: boolean
}

/** Close it after the last answer. */
export async function openAccess(context: AccessContext, options: AccessOptions): Promise<Access> {
  const { engines, log } = context
  const { relational } = engines
  const scope = createScope((part, error) =>
    log.error({ part, reason: describeError(error) }, 'close-failed'),
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
