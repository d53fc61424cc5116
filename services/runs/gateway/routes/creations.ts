/** POST /runs and /dispatches: messages whose answers are read later. For interfaces where `/<agent>/run` has no place. */

import type { FastifyInstance } from 'fastify'
import { placeOf } from '#runtime/http/paging.ts'
import { idempotencyHeaders, idempotencyProblems } from '#services/access/callers/idempotent.ts'
import { leastAccess } from '#services/access/callers/least-access.ts'
import type { StartParts } from '../gateway.ts'
import { bodyBytesMax, dispatchRequest, readRunRequest, runRequest } from '../requests.ts'
import { dispatch, run, viewOfDispatch, viewOfRun } from '../views.ts'
import { startDispatch } from './dispatches.ts'
import { startRun } from './run.ts'

export function registerCreations(scope: FastifyInstance, parts: StartParts): void {
  registerRunCreation(scope, parts)
  registerDispatchCreation(scope, parts)
}

function registerRunCreation(scope: FastifyInstance, parts: StartParts): void {
  scope.route({
    method: 'POST',
    url: '/runs',
    bodyLimit: bodyBytesMax,
    onRequest: leastAccess('member'),
    config: {
      operation: 'run',
      problems: [
        'forbidden',
        'agent_not_found',
        'user_mismatch',
        'session_busy',
        'session_queue_full',
        'too_many_waiting',
        'run_not_found',
        ...idempotencyProblems,
      ],
    },
    schema: {
      operationId: 'createRun',
      tags: ['runs'],
      summary: 'Send a message to an agent',
      description:
        'To the one that `appName` names, which is required. The answer is the run at once; follow its events. With an ' +
        'Idempotency-Key header a repeated request finds the same run.',
      headers: idempotencyHeaders,
      body: runRequest,
      response: { 202: run },
    },
    async handler(request, reply) {
      const asked = await readRunRequest(parts, request)
      const started = await startRun(parts, request, reply, asked)
      started.follow.close()
      reply.code(202)
      reply.header('location', `${placeOf(request)}/${started.run.runId}`)
      return viewOfRun(started.run)
    },
  })
}

function registerDispatchCreation(scope: FastifyInstance, parts: StartParts): void {
  scope.route({
    method: 'POST',
    url: '/dispatches',
    bodyLimit: bodyBytesMax,
    onRequest: leastAccess('member'),
    config: {
      operation: 'dispatch',
      problems: [
        'forbidden',
        'user_mismatch',
        'session_queue_full',
        'too_many_waiting',
        'node_unavailable',
        'dispatch_not_found',
        ...idempotencyProblems,
      ],
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
