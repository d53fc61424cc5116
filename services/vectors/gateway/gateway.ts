/** What the gateway's routes work with, opened and closed together: callers, operations, points, health, statistics. */

import type { Static } from 'typebox'
import { budgets } from '#lib/budgets.ts'
import { describeError } from '#lib/errors.ts'
import { createScope } from '#lib/resource.ts'
import { createBodyThread } from '#runtime/http/json-parser.ts'
import type { ServiceContext } from '#runtime/start/service.ts'
import { createRecentOperations } from '#services/access/audit/trail/recent-operations.ts'
import { openAccess } from '#services/access/front-door.ts'
import { openHandshakes } from '#services/access/handshake/handshakes.ts'
import { openSecrets } from '#services/access/secrets/secrets.ts'
import type { ParsedUpsert } from '../accept/upsert.ts'
import { openCollections } from '../collections/registry.ts'
import { createLatencies, exposeSearches } from '../read/observed.ts'
import {
  createBacklog,
  createOperationIds,
  createOperations,
  loadOperationSecret,
} from '../read/operations/operations.ts'
import { openProgress } from '../read/operations/progress.ts'
import { loadPgSearch } from '../read/search-pg/search.ts'
import { keptAwakeMs, type mirrorSettings, sleepLimits } from '../relational/settings.ts'
import { createMirrorUse } from '../relational/use.ts'
import { createHealthProbe } from './routes/health.ts'

type GatewayEngines = 'eventLog' | 'vectors' | 'relational' | 'mirror' | 'embedder'
type Config = Static<typeof mirrorSettings> & { GATEWAY_KEY_TTL_S: number }
export type GatewayContext = ServiceContext<GatewayEngines, Config>

export type Gateway = Awaited<ReturnType<typeof openGateway>>

/** Follows the topics it needs and starts the background probe; close it after the last answer. */
export async function openGateway(context: GatewayContext, limits = sleepLimits) {
  const { engines, publisher, codec, log } = context
  const scope = createScope((part, error) =>
    log.error({ part, reason: describeError(error) }, 'service.close-failed'),
  )
  try {
    const ids = createOperationIds(
      await loadOperationSecret(await openSecrets(engines.relational, context.env, log)),
    )
    const access = scope.add('access', await openAccess(context, { name: 'vector-gateway' }))
    const { GATEWAY_KEY_TTL_S: keyTtlS, MIRROR, MIRROR_SLEEP_AFTER_MIN } = context.config
    const handshakes = openHandshakes({ relational: engines.relational, keyTtlS })
    const collections = scope.add('collections', await openCollections({ ...engines, publisher, log }))
    const progress = scope.add('progress', await openProgress({ ...engines, codec, publisher, log }))
    const health = scope.add('health', createHealthProbe(engines))
    const searchLatencies = createLatencies()
    exposeSearches(context.metrics, searchLatencies)
    const upsertThread = scope.add(
      'upsert thread',
      createBodyThread<ParsedUpsert>(
        new URL('../accept/upsert-thread.ts', import.meta.url),
        'upsert',
        budgets.parsing.upsertWaitingBytes,
      ),
    )
    return {
      ...access,
      context,
      handshakes,
      progress,
      operations: createOperations({ relational: engines.relational, publisher, progress, ids }),
      backlog: createBacklog(progress),
      collections,
      mirrorUse: createMirrorUse({
        ...engines,
        publisher,
        mirrored: progress.mirrored,
        off: MIRROR === 'off',
        awakeMs: keptAwakeMs(MIRROR_SLEEP_AFTER_MIN, limits),
        limits,
      }),
      pgSearch: await loadPgSearch(engines.mirror, undefined, undefined, collections),
      upsertThread,
      health,
      searchLatencies,
      recentOperations: createRecentOperations(context),
      /** Answers requests that wait for their operations as far as they are, so that a stop need not wait for them. */
      stopWaiting: progress.stopWaiting,
      close: (): Promise<void> => scope.close(),
    }
  } catch (error) {
    await scope.close()
    throw error
  }
}
