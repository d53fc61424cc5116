/** Accepts the run of a request, or finds the one that was accepted under its Idempotency-Key. */

import { randomUUID } from 'node:crypto'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { AppError } from '#lib/errors.ts'
import { callerOf } from '#services/access/callers/caller.ts'
import { idempotent } from '#services/access/callers/idempotent.ts'
import { idOfSeed } from '#services/access/idempotency.ts'
import { type Follow, openFollow } from '../../follow/follow.ts'
import { runAlone, treeOf } from '../../follow/subjects.ts'
import { acceptRun, newRunId, SessionBusyError } from '../../state/accept.ts'
import { runIdOf } from '../../state/new-run.ts'
import { readRun } from '../../state/read.ts'
import type { Run } from '../../state/types.ts'
import type { StartParts } from '../gateway.ts'
import type { RunRequest } from '../requests/run-request.ts'

export interface StartedRun {
  run: Run
  /** Opened before the run was made, so that nothing is missed. Close it. */
  follow: Follow<Run>
  /** False for a run that was there before. */
  fresh: boolean
  join: boolean
}

/** Throws AppError `session_busy`, `session_queue_full`, `too_many_waiting`, and what an Idempotency-Key is refused with. */
export async function startRun(
  parts: StartParts,
  request: FastifyRequest,
  reply: FastifyReply,
  asked: RunRequest,
): Promise<StartedRun> {
  let made: StartedRun | undefined
  const { runId } = await idempotent(
    parts,
    request,
    reply,
    async (seed) => {
      made = await parts.change(request, { action: 'run.create', target: asked.node.slug }, async (notes) => {
        const started = await accept(parts, request, asked, seed)
        notes?.describe({ target: started.run.runId })
        return started
      })
      return { runId: made.run.runId }
    },
    asked.node.slug,
  )
  if (made) return made
  const run = await readRun(parts.relational, runId)
  if (!run) throw new AppError('run_not_found', 'The run of this Idempotency-Key is not kept any more.')
  return { run, follow: followRun(parts, runId, asked.join), fresh: false, join: asked.join }
}

async function accept(
  parts: StartParts,
  request: FastifyRequest,
  asked: RunRequest,
  seed: string | undefined,
): Promise<StartedRun> {
  const { node, userId, message, streaming, stateDelta, customMetadata, onBusy, join } = asked
  const runId = seed === undefined ? newRunId() : runIdOf('idempotency', seed)
  const newSession = () => (seed === undefined ? randomUUID() : idOfSeed(seed, 'session'))
  const follow = followRun(parts, runId, join)
  try {
    const given = {
      runId,
      slug: node.slug,
      agent: node.codename,
      userId,
      sessionId: asked.sessionId ?? newSession(),
      trigger: 'api' as const,
      callerUid: callerOf(request).uid,
      requestId: request.id,
      traceparent: request.traceparent,
      message,
      streaming,
      ...(stateDelta ? { stateDelta } : {}),
      ...(customMetadata ? { customMetadata } : {}),
      onBusy,
    }
    // Under a seed an earlier request may have made it, and died. Of a new one the rows need not be read, which have no pieces.
    const { run, isNew } = await acceptRun(parts.relational, given, parts.local.dispatcher)
    return { run, follow, fresh: isNew, join }
  } catch (error) {
    follow.close()
    if (!(error instanceof SessionBusyError)) throw error
    const members = { activeRunId: error.activeRunId }
    throw new AppError('session_busy', error.message, { members, cause: error })
  }
}

function followRun(parts: StartParts, runId: string, join: boolean): Follow<Run> {
  const { relational } = parts
  return openFollow(parts, join ? treeOf(relational, runId) : runAlone(relational, runId, runId))
}
