/** Runs what operators do, in the way in which the command line runs it, for requests of the main API. */

import type { FastifyRequest } from 'fastify'
import type { Static, TObject } from 'typebox'
import type { OperatedPlatform, Operation } from '#operations/operation.ts'
import type { Engines, ServiceContext } from '#runtime/start/service.ts'
import { choicesOf, homeOf } from '#runtime/start/settings.ts'
import { callerOf } from '#services/access/callers/caller.ts'

/** An operation that waits for a courier, for example, answers by then. */
const timeoutMs = 60_000

/**
 * Runs it as the caller of the request: what it changes is noted under that name. Rejects with what the operation rejects
 * with. Its progress is dropped: routes that show it have their own output.
 */
export function operate<S extends TObject, R, I>(
  context: MainApiContext,
  request: FastifyRequest,
  operation: Operation<S, R, I>,
  args: Static<S>,
): Promise<R> {
  const { kind, uid } = callerOf(request)
  const operated = {
    platform: operatedBy(context),
    output: { item() {}, progress() {} },
    signal: AbortSignal.timeout(timeoutMs),
    actor: { kind, id: uid },
    requestId: request.id,
  }
  return operation.run(operated, args)
}

/** Operations name the engines that they need; the service opens those of all that its routes run. */
export function operatedBy(context: MainApiContext): OperatedPlatform {
  const { env, engines } = context
  return { ...context, engines: engines as Engines, home: homeOf(env), choices: choicesOf(env) }
}

type MainApiEngines = 'eventLog' | 'relational' | 'identity' | 'vectors' | 'embedder'
export type MainApiContext = ServiceContext<
  MainApiEngines,
  { MAIN_API_URL?: string; CUSTOM_TOKEN_TTL_S: number }
>
