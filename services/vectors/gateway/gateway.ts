/** The engines in, what the gateway's routes work with out: keys, handshakes, audit trail, operations, back-pressure. */

import { Counter, type Registry } from 'prom-client'
import { describeError } from '#lib/errors.ts'
import { type Closeable, createScope } from '#lib/resource.ts'
import { type BodyThread, createBodyThread } from '#runtime/http/body-thread.ts'
import { repeatUntil } from '#runtime/repeat.ts'
import type { ServiceContext } from '#runtime/service.ts'
import { createRecentOperations, type RecentOperations } from '#services/audit/trail/recent-operations.ts'
import { type AuditTrail, createAuditTrail } from '#services/audit/trail/trail.ts'
import { type GatewayKeys, openGatewayKeys } from '#services/identity/gateway-keys/gateway-keys.ts'
import { createHandshakeLimits, type HandshakeLimits } from '#services/identity/handshake/handshake-limits.ts'
import { createHandshakes, type Handshakes } from '#services/identity/handshake/handshakes.ts'
import { createLimitRows, type SharedLimits } from '#services/limits/limit-rows.ts'
import { createLimiter, type Limiter } from '#services/limits/limiter.ts'
import { type HealthProbe, openHealthProbe } from './health-probe.ts'
import { createLatencies, exposeSearches, type Latencies } from './observed/latencies.ts'
import { type Backlog, createBacklog } from './operations/backlog.ts'
import { createOperationIds, loadInstallationSecret } from './operations/operation-id.ts'
import { createOperations, type Operations } from './operations/operations.ts'
import { openProgress } from './operations/progress.ts'
import { type ByteBudget, createByteBudget } from './points/byte-budget.ts'
import type { ParsedUpsert } from './points/parse-upsert.ts'
import { createPointPublisher, type PointPublisher } from './points/publish.ts'
import { loadPgSearch, type PgSearch } from './search-pg/search.ts'

export type GatewayEngines = 'eventLog' | 'vectors' | 'relational' | 'mirror' | 'embedder'
export type GatewayContext = ServiceContext<GatewayEngines, { GATEWAY_KEY_TTL_S: number }>

export interface Gateway extends Closeable {
  context: GatewayContext
  keys: GatewayKeys
  handshakes: Handshakes
  handshakeLimits: HandshakeLimits
  limiter: Limiter
  audit: AuditTrail
  operations: Operations
  backlog: Backlog
  points: PointPublisher
  pgSearch: PgSearch
  upsertThread: BodyThread<ParsedUpsert>
  health: HealthProbe
  searchLatencies: Latencies
  recentOperations: RecentOperations
  receiving: ByteBudget
  /** Answers requests that wait for their operations as far as they are, so that a stop need not wait for them. */
  stopWaiting(): void
}

const sweepEveryMs = 10 * 60_000

/** Follows the topics it needs and starts the background probe; close it after the last answer. */
export async function openGateway(context: GatewayContext): Promise<Gateway> {
  const { engines, publisher, codec, log } = context
  const scope = createScope((part, error) =>
    log.error({ part, reason: describeError(error) }, 'close-failed'),
  )
  try {
    const ids = createOperationIds(await loadInstallationSecret(engines.relational))
    const keys = scope.add(
      'keys',
      await openGatewayKeys({ relational: engines.relational, eventLog: engines.eventLog, publisher }),
    )
    const progress = scope.add(
      'progress',
      await openProgress({
        eventLog: engines.eventLog,
        codec,
        publisher,
        vectors: engines.vectors,
        mirror: engines.mirror,
        onFault: (what) => log.warn({ what }, 'gateway.progress'),
      }),
    )
    const health = scope.add('health', await openHealthProbe(engines))
    const lost = auditLostCounter(context.metrics)
    const audit = createAuditTrail({
      publisher,
      onLost(error) {
        lost.inc()
        log.warn({ reason: describeError(error) }, 'gateway.audit-lost')
      },
    })
    scope.add('audit', audit)
    const shared = createLimitRows(engines.relational)
    const limiter = scope.add('limits', createLimiter({ shared, instance: context.instanceId }))
    scope.add('sweep', startSweep(context, shared))
    const searchLatencies = createLatencies()
    exposeSearches(context.metrics, searchLatencies)
    const upsertThread = scope.add(
      'upsert thread',
      createBodyThread<ParsedUpsert>(new URL('./points/upsert-thread.ts', import.meta.url), 'upsert'),
    )
    return {
      context,
      keys,
      handshakes: createHandshakes(engines.relational, context.config.GATEWAY_KEY_TTL_S),
      handshakeLimits: createHandshakeLimits(),
      limiter,
      audit,
      operations: createOperations({ relational: engines.relational, publisher, progress, ids }),
      backlog: createBacklog(progress),
      points: createPointPublisher(publisher),
      pgSearch: await loadPgSearch(engines.mirror),
      upsertThread,
      health,
      searchLatencies,
      recentOperations: createRecentOperations(context),
      receiving: createByteBudget(),
      stopWaiting: progress.stopWaiting,
      close: () => scope.close(),
    }
  } catch (error) {
    await scope.close()
    throw error
  }
}

/** Rows that ran out are refused anyway: they are cleared away so that the tables stay small. */
function startSweep({ engines, log }: GatewayContext, limits: SharedLimits): Closeable {
  const stop = new AbortController()
  const sweeping = repeatUntil(
    {
      what: 'sweep of expired keys',
      everyMs: sweepEveryMs,
      firstAfterMs: sweepEveryMs,
      signal: stop.signal,
      log,
    },
    async () => {
      await engines.relational.query('delete from platform.gateway_keys where expires_at < now()')
      await engines.relational.query('delete from platform.challenges where expires_at < now()')
      await limits.sweep()
    },
  )
  return {
    async close() {
      stop.abort()
      await sweeping
    },
  }
}

function auditLostCounter(registry: Registry): Counter {
  const name = 'vector_gateway_audit_lost_total'
  const present = registry.getSingleMetric(name)
  if (present) return present as Counter
  return new Counter({
    name,
    help: 'Audit ends and summaries that could not be written',
    registers: [registry],
  })
}
