/** Runs and dispatches at another interface: the routes of the run gateway, and who changed what is noted. */

import type { FastifyInstance, FastifyRequest } from 'fastify'
import { Type } from 'typebox'
import { describeError } from '#lib/errors.ts'
import { type Closeable, createScope } from '#lib/resource.ts'
import type { ServiceContext } from '#runtime/start/service.ts'
import type { CallerStreams } from '#services/access/limits/caller-streams.ts'
import { openFeed } from '#services/runs/follow/feed.ts'
import { createLooks } from '#services/runs/follow/looks.ts'
import type { StartParts } from '#services/runs/gateway/gateway.ts'
import { registerCreations } from '#services/runs/gateway/routes/creations.ts'
import { registerDispatches } from '#services/runs/gateway/routes/dispatches.ts'
import { registerRuns } from '#services/runs/gateway/routes/runs.ts'
import type { RunSurface } from '#services/runs/gateway/surface.ts'
import { watchNodes } from '#services/runs/nodes/nodes-file.ts'
import { nodesFileOf } from '#services/runs/nodes/settings.ts'
import { localRunsOf } from '#services/runs/state/local-runs.ts'
import { type ChangeContext, defineChange } from './change.ts'
import type { Operation } from './operation.ts'

export interface RunsFollowed extends Closeable, Omit<StartParts, 'streams'> {}

/** What the routes work with; close it after the last answer. */
export async function openRunsFollowed(
  context: ServiceContext<'eventLog' | 'relational', unknown>,
): Promise<RunsFollowed> {
  const { engines, env, log } = context
  const { relational, eventLog } = engines
  const local = localRunsOf(relational)
  const scope = createScope((part, error) =>
    log.error({ part, reason: describeError(error) }, 'close-failed'),
  )
  try {
    return {
      relational,
      local,
      log,
      nodes: scope.add('nodes file', watchNodes({ ...nodesFileOf(env), env, log })),
      feed: scope.add('feed of runs', await openFeed({ ...context, eventLog, local })),
      looks: scope.add('looks at runs', createLooks({ relational, log })),
      close: () => scope.close(),
    }
  } catch (error) {
    await scope.close()
    throw error
  }
}

const noArgs = Type.Object({})

export interface RunRoutes {
  followed: RunsFollowed
  streams: CallerStreams
  surface: Omit<RunSurface, 'change'>
  /** Runs a change as the caller of the request. */
  operate<R>(request: FastifyRequest, operation: Operation<typeof noArgs, R, never>): Promise<R>
}

export function registerRunRoutes(
  scope: FastifyInstance,
  { followed, streams, surface: given, operate }: RunRoutes,
): void {
  const parts: StartParts = { ...followed, streams }
  const surface: RunSurface = {
    ...given,
    change: (request, action, target, work) =>
      operate(
        request,
        defineChange({
          name: action,
          action,
          targetOf: () => target,
          needs: [],
          args: noArgs,
          run: ({ describe }: ChangeContext) => work((named) => describe({ target: named })),
        }),
      ),
  }
  registerRuns(scope, parts, surface)
  registerDispatches(scope, parts, surface)
  registerCreations(scope, parts, surface)
}
