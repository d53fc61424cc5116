/** /dispatch and /dispatches: messages to every agent but the orchestrator, each as one goal, and what became of them. */

import { randomUUID } from 'node:crypto'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { Type } from 'typebox'
import { AppError, type ErrorCode } from '#lib/errors.ts'
import { acceptsEvents } from '#runtime/http/event-stream.ts'
import { placeOf } from '#runtime/http/paging.ts'
import { callerOf } from '#services/access/callers/caller.ts'
import { leastAccess } from '#services/access/callers/credentials.ts'
import {
  idempotencyHeaders,
  idempotencyProblems,
  idempotent,
  idOfSeed,
} from '#services/access/idempotency.ts'
import { authorOf } from '#services/records/store/kind.ts'
import { openFollow } from '../../follow/follow.ts'
import { dispatchOf } from '../../follow/subjects.ts'
import { newRunId, runIdOf } from '../../state/accept.ts'
import { acceptDispatch, cancelDispatch, readDispatch, runsForAll } from '../../state/dispatches.ts'
import type { Dispatch } from '../../state/types.ts'
import type { RunGateway, RunParts } from '../gateway.ts'
import { dispatchFor } from '../owned.ts'
import { bodyBytesMax, dispatchRequest, readDispatchRequest } from '../requests.ts'
import { dispatch, endOfDispatch, streamText, tellStarted, viewOfDispatch } from '../views.ts'
import { registerStarted, startWaitMs } from './started.ts'
import { answerEvents } from './stream.ts'

const description = `Every agent but the orchestrator gets the message in one session, and a goal is made for it, which every viewer may read and
which follows the runs. When they have ended, or after five minutes, the orchestrator is given what they said, and its text
becomes \`result\`. Names inside the message call nobody: all are addressed. With \`Accept: text/event-stream\` the answer is 200 and the events as they happen; the last one has
\`customMetadata.dispatch\`.

${streamText}`

const startProblems: readonly ErrorCode[] = [
  'forbidden',
  'user_mismatch',
  'session_queue_full',
  'too_many_waiting',
  'node_unavailable',
  'dispatch_not_found',
  ...idempotencyProblems,
]

export function registerDispatch(scope: FastifyInstance, gateway: RunGateway): void {
  scope.route({
    method: 'POST',
    url: '/dispatch',
    bodyLimit: bodyBytesMax,
    onRequest: leastAccess('member'),
    config: {
      operation: 'dispatch',
      problems: [...startProblems, 'too_many_streams'],
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
        tellStarted(reply, `/dispatches/${made.goalId}`, made)
        if (place) {
          const follow = openFollow(gateway, dispatchOf(gateway.relational, made.goalId))
          return answerEvents(gateway.streams, request, reply, {
            follow,
            after: 0,
            endOf: endOfDispatch,
            place,
          })
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

/** POST /dispatches: a message whose answers are read later, for interfaces where `/dispatch` has no place. */
export function registerDispatchCreation(scope: FastifyInstance, parts: RunParts): void {
  scope.route({
    method: 'POST',
    url: '/dispatches',
    bodyLimit: bodyBytesMax,
    onRequest: leastAccess('member'),
    config: {
      operation: 'dispatch',
      problems: [...startProblems],
    },
    schema: {
      operationId: 'createDispatch',
      tags: ['dispatches'],
      summary: 'Send a message to all agents',
      description:
        'To every agent but the orchestrator, as one goal, which every viewer may read. With an Idempotency-Key header a ' +
        'repeated request finds the same dispatch.',
      headers: idempotencyHeaders,
      body: dispatchRequest,
      response: { 202: dispatch },
    },
    async handler(request, reply) {
      const made = await startDispatch(parts, request, reply)
      reply.code(202)
      reply.header('location', `${placeOf(request)}/${made.goalId}`)
      return viewOfDispatch(made)
    },
  })
}

/** Accepts the dispatch, or finds the one that was accepted under the request's Idempotency-Key. */
async function startDispatch(
  parts: RunParts,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<Dispatch> {
  let made: Dispatch | undefined
  const { goalId } = await idempotent(
    parts,
    request,
    reply,
    async (seed) => {
      made = await parts.change(request, { action: 'dispatch.create', target: 'goal' }, async (notes) => {
        const accepted = await accept(parts, request, seed)
        notes?.describe({ target: `goal/${accepted.goalId}` })
        return accepted
      })
      return { goalId: made.goalId }
    },
    { waitMs: startWaitMs },
  )
  const found = made ?? (await readDispatch(parts.relational, goalId))
  if (found) return found
  throw new AppError('dispatch_not_found', 'The dispatch of this Idempotency-Key is not kept any more.')
}

async function accept(parts: RunParts, request: FastifyRequest, seed: string | undefined): Promise<Dispatch> {
  const caller = callerOf(request)
  const { userId, sessionId, message, metadata } = await readDispatchRequest(parts.relational, request)
  const runs = runsForAll(parts.nodes.current(), (slug) =>
    seed === undefined ? newRunId() : runIdOf('idempotency', seed, slug),
  )
  if (runs.length === 0) throw new AppError('node_unavailable', 'The nodes file names no agent.')
  const idFor = (purpose: string) => (seed === undefined ? randomUUID() : idOfSeed(seed, purpose))
  return acceptDispatch(parts.relational, {
    userId,
    sessionId: sessionId ?? idFor('session'),
    message,
    metadata,
    callerUid: caller.uid,
    author: authorOf(caller),
    requestId: request.id,
    traceparent: request.traceparent,
    creationKey: idFor('dispatch'),
    runs,
  })
}

export function registerDispatches(scope: FastifyInstance, parts: RunParts): void {
  const { relational } = parts
  registerStarted<Dispatch>(scope, parts, {
    name: 'dispatch',
    tag: 'dispatches',
    param: 'goalId',
    id: Type.String({ description: 'Its `goalId`, a whole number.', maxLength: 32 }),
    view: dispatch,
    viewOf: viewOfDispatch,
    endOf: endOfDispatch,
    find: (caller, id) => dispatchFor(relational, caller, id),
    subject: ({ goalId }) => dispatchOf(relational, goalId),
    cancel: ({ goalId }, headers) => cancelDispatch(relational, goalId, headers),
    descriptions: {
      follow: `Of all its agents, of those that joined them, and of the orchestrator; the ids count over all of them. ${streamText}`,
      cancel:
        'With all its runs. 202: some are at work, and end within ten seconds. One that has ended stays as it is.',
    },
    sample: {
      variable: 'GOAL_ID',
      found: '"goalId":\\([0-9]*\\)',
      start: (prefix) => ({
        path: prefix === '' ? '/dispatch' : `${prefix}/dispatches`,
        body: '{"message":"What do you know about the relay?"}',
      }),
    },
  })
}
