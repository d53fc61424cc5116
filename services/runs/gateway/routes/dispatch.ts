/** POST /dispatch: a message to every agent but the orchestrator, as one goal. */

import { randomUUID } from 'node:crypto'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { Type } from 'typebox'
import { AppError } from '#lib/errors.ts'
import { acceptsEvents } from '#runtime/http/accepts-events.ts'
import { callerOf } from '#services/access/callers/caller.ts'
import { idempotencyHeaders, idempotencyProblems, idempotent } from '#services/access/callers/idempotent.ts'
import { leastAccess } from '#services/access/callers/least-access.ts'
import { idOfSeed } from '#services/access/idempotency.ts'
import { authorOf } from '#services/records/store/author.ts'
import { openFollow } from '../../follow/follow.ts'
import { dispatchOf } from '../../follow/subjects.ts'
import { newRunId } from '../../state/accept.ts'
import { acceptDispatch, readDispatch } from '../../state/dispatches.ts'
import { axon } from '../../state/end.ts'
import { runIdOf } from '../../state/new-run.ts'
import type { Dispatch } from '../../state/types.ts'
import type { RunGateway, StartParts } from '../gateway.ts'
import { dispatchRequest, readDispatchRequest } from '../requests/dispatch-request.ts'
import { bodyBytesMax } from '../requests/fields.ts'
import { dispatch, streamText } from '../schemas.ts'
import { endOfDispatch, viewOfDispatch } from '../views.ts'
import { tellDispatch } from './headers.ts'
import { answerEvents } from './stream.ts'

const deadlineMs = 300_000

const description = `Every agent but the orchestrator gets the message in one session, and a goal is made for it, which every viewer may read and
which follows the runs. When they have ended, or after five minutes, the orchestrator is given what they said, and its text
becomes \`result\`. Names inside the message call nobody: all are addressed. With \`Accept: text/event-stream\` the answer is 200 and the events as they happen; the last one has
\`customMetadata.dispatch\`.

${streamText}`

export function registerDispatch(scope: FastifyInstance, gateway: RunGateway): void {
  scope.route({
    method: 'POST',
    url: '/dispatch',
    bodyLimit: bodyBytesMax,
    onRequest: leastAccess('member'),
    config: {
      operation: 'dispatch',
      problems: [
        'forbidden',
        'user_mismatch',
        'session_queue_full',
        'too_many_waiting',
        'too_many_streams',
        'node_unavailable',
        'dispatch_not_found',
        ...idempotencyProblems,
      ],
    },
    schema: {
      operationId: 'dispatch',
      tags: ['dispatches'],
      summary: 'Send a message to all agents',
      description,
      headers: Type.Object({ ...idempotencyHeaders.properties }),
      body: dispatchRequest,
      response: { 202: dispatch },
    },
    async handler(request, reply) {
      const streaming = acceptsEvents(request.headers.accept)
      const place = streaming ? gateway.places.take(callerOf(request).uid) : undefined
      try {
        const made = await startDispatch(gateway, request, reply)
        tellDispatch(reply, made)
        if (place) {
          const follow = openFollow(gateway, dispatchOf(gateway.relational, made.goalId))
          const endOf = (ended: Dispatch, lastId: number) => ({
            id: String(lastId + 1),
            data: endOfDispatch(ended),
          })
          return answerEvents(gateway.streams, request, reply, { follow, after: 0, endOf }, { place })
        }
        reply.code(202)
        return viewOfDispatch(made)
      } catch (error) {
        place?.release()
        throw error
      }
    },
  })
}

/** Accepts the dispatch, or finds the one that was accepted under the request's Idempotency-Key. */
export async function startDispatch(
  parts: StartParts,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<Dispatch> {
  let made: Dispatch | undefined
  const { goalId } = await idempotent(parts, request, reply, async (seed) => {
    made = await parts.change(request, { action: 'dispatch.create', target: 'goal' }, async (notes) => {
      const accepted = await accept(parts, request, seed)
      notes?.describe({ target: `goal/${accepted.goalId}` })
      return accepted
    })
    return { goalId: made.goalId }
  })
  const found = made ?? (await readDispatch(parts.relational, goalId))
  if (found) return found
  throw new AppError('dispatch_not_found', 'The dispatch of this Idempotency-Key is not kept any more.')
}

async function accept(
  parts: StartParts,
  request: FastifyRequest,
  seed: string | undefined,
): Promise<Dispatch> {
  const caller = callerOf(request)
  const { userId, sessionId, message } = await readDispatchRequest(parts.relational, request)
  const nodes = parts.nodes.current().nodes.filter(({ slug }) => slug !== axon.slug)
  if (nodes.length === 0) throw new AppError('node_unavailable', 'The nodes file names no agent.')
  const idFor = (purpose: string) => (seed === undefined ? randomUUID() : idOfSeed(seed, purpose))
  return acceptDispatch(parts.relational, {
    userId,
    sessionId: sessionId ?? idFor('session'),
    message,
    callerUid: caller.uid,
    author: authorOf(caller),
    requestId: request.id,
    traceparent: request.traceparent,
    creationKey: idFor('dispatch'),
    runs: nodes.map(({ slug, codename }) => ({
      slug,
      agent: codename,
      runId: seed === undefined ? newRunId() : runIdOf('idempotency', seed, slug),
    })),
    deadlineMs,
  })
}
