/** What the routes of the run gateway work with, opened and closed together. */

import type { Logger } from 'pino'
import { describeError } from '#lib/errors.ts'
import { createScope, type Scope } from '#lib/resource.ts'
import type { ServiceContext } from '#runtime/start/service.ts'
import type { RunChange } from '#services/access/admin-audit/admin-audit.ts'
import { openStaticKeys } from '#services/access/agent-keys/static-keys.ts'
import { openGatewayKeys } from '#services/access/callers/credentials.ts'
import {
  type CallerStreams,
  createCallerStreams,
  createStreamPlaces,
} from '#services/access/limits/caller-streams.ts'
import { openLimiter } from '#services/access/limits/limiter.ts'
import { openProvider } from '#services/access/provider/provider.ts'
import { openTokens } from '#services/access/tokens/tokens.ts'
import { openFeed } from '../follow/feed.ts'
import type { FollowParts } from '../follow/follow.ts'
import { createLooks } from '../follow/subjects.ts'
import { type WatchedNodes, watchNodes } from '../nodes/nodes.ts'
import { createLocalRuns, type LocalRuns } from '../state/claims.ts'
import { createWaits } from './routes/stream.ts'

export type RunGatewayContext = ServiceContext<
  'eventLog' | 'relational' | 'identity',
  { MAIN_API_URL?: string; CUSTOM_TOKEN_TTL_S: number }
>

/** What the routes need that show runs and start them, at any interface. */
export interface RunParts extends FollowParts {
  streams: CallerStreams
  change: RunChange
  log: Logger
  nodes: Pick<WatchedNodes, 'current'>
  local: LocalRuns
}

export type RunsFollowed = Omit<RunParts, 'streams' | 'change'>

/** What the routes of runs work with, at any interface, opened into a scope that is closed after the last answer. */
export async function openRunsFollowed(
  context: ServiceContext<'eventLog' | 'relational', unknown>,
  scope: Scope,
): Promise<RunsFollowed> {
  const { engines, env, log } = context
  const { relational, eventLog } = engines
  const local = context.shared(createLocalRuns)
  return {
    relational,
    local,
    log,
    nodes: scope.add('nodes file', watchNodes({ env, log })),
    feed: scope.add('feed of runs', await openFeed({ ...context, eventLog, local })),
    looks: scope.add('looks at runs', createLooks({ relational, log })),
  }
}

export type RunGateway = Awaited<ReturnType<typeof openRunGateway>>

/** Close it after the last answer. */
export async function openRunGateway(context: RunGatewayContext) {
  const { engines, publisher, log } = context
  const { relational, eventLog } = engines
  const scope = createScope((part, error) =>
    log.error({ part, reason: describeError(error) }, 'service.close-failed'),
  )
  try {
    const followed = await openRunsFollowed(context, scope)
    const identity = scope.add('identity provider', await openProvider(context))
    const tokens = scope.add('tokens', await openTokens({ relational, eventLog, publisher, identity, log }))
    const keys = scope.add('keys', await openGatewayKeys({ relational, eventLog, publisher, log }))
    const staticKeys = scope.add('static keys', openStaticKeys({ relational, tokens, log }))
    // The burst and concurrency of an agent are shared with all interfaces; its day is the vector gateway's.
    const limiter = scope.add('limits', openLimiter({ relational, log }, { daily: false }))
    const places = createStreamPlaces()
    const parts: RunParts = {
      ...followed,
      streams: createCallerStreams({ tokens, log }, places),
      // Records of runs say who asked for them.
      change: (_request, _change, work) => work(),
    }
    return {
      ...parts,
      keys,
      staticKeys,
      tokens,
      limiter,
      places,
      waits: createWaits({ tokens }),
      close: () => scope.close(),
    }
  } catch (error) {
    await scope.close()
    throw error
  }
}
