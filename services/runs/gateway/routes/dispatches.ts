/** /dispatches: what became of the messages to all agents. */

import type { FastifyInstance } from 'fastify'
import { Type } from 'typebox'
import { recordHeaders } from '#runtime/http/app.ts'
import { callerOf } from '#services/access/callers/caller.ts'
import { leastAccess } from '#services/access/callers/least-access.ts'
import { openFollow } from '../../follow/follow.ts'
import { dispatchOf } from '../../follow/subjects.ts'
import { cancelDispatch } from '../../state/dispatches.ts'
import type { Dispatch } from '../../state/types.ts'
import type { RunParts } from '../gateway.ts'
import { dispatchFor } from '../requests/owned.ts'
import { dispatch, eventStream, streamText } from '../schemas.ts'
import { endOfDispatch, viewOfDispatch } from '../views.ts'
import { dispatchSample } from './samples.ts'
import { afterOf, answerEvents, hasAll, nothingMore, streamHeaders, streamQuery } from './stream.ts'

const params = Type.Object({
  goalId: Type.String({ description: 'Its `goalId`, a whole number.', maxLength: 32 }),
})

export function registerDispatches(scope: FastifyInstance, parts: RunParts): void {
  registerShow(scope, parts)
  registerEvents(scope, parts)
  registerCancel(scope, parts)
}

function registerShow(scope: FastifyInstance, { relational }: RunParts): void {
  scope.route({
    method: 'GET',
    url: '/dispatches/:goalId',
    config: { problems: ['forbidden', 'dispatch_not_found'], sample: dispatchSample('') },
    schema: {
      operationId: 'getDispatch',
      tags: ['dispatches'],
      summary: 'Show a dispatch',
      params,
      response: { 200: dispatch },
    },
    async handler(request) {
      const { goalId } = request.params as { goalId: string }
      return viewOfDispatch(await dispatchFor(relational, callerOf(request), goalId))
    },
  })
}

function registerEvents(scope: FastifyInstance, parts: RunParts): void {
  scope.route({
    method: 'GET',
    url: '/dispatches/:goalId/events',
    config: {
      problems: ['forbidden', 'dispatch_not_found', 'too_many_streams'],
      sample: dispatchSample('/events', '-N --max-time 5'),
    },
    schema: {
      operationId: 'followDispatch',
      tags: ['dispatches'],
      summary: 'Follow the events of a dispatch',
      description: `Of all its agents, of those that joined them, and of the orchestrator; the ids count over all of them. ${streamText}`,
      params,
      querystring: Type.Object(streamQuery),
      headers: streamHeaders,
      response: { 200: eventStream('Events, also of a dispatch that has ended.'), 204: nothingMore },
    },
    async handler(request, reply) {
      const after = afterOf(request)
      const { goalId } = await dispatchFor(
        parts.relational,
        callerOf(request),
        (request.params as { goalId: string }).goalId,
      )
      const subject = dispatchOf(parts.relational, goalId)
      if (await hasAll(subject, after)) return reply.code(204).send()
      const follow = openFollow(parts, subject)
      const endOf = (ended: Dispatch, lastId: number) => ({
        id: String(lastId + 1),
        data: endOfDispatch(ended),
      })
      return answerEvents(parts.streams, request, reply, { follow, after, endOf })
    },
  })
}

function registerCancel(scope: FastifyInstance, { relational, change }: RunParts): void {
  scope.route({
    method: 'POST',
    url: '/dispatches/:goalId/cancel',
    onRequest: leastAccess('member'),
    config: {
      operation: 'dispatch.cancel',
      problems: ['forbidden', 'dispatch_not_found'],
      sample: dispatchSample('/cancel', '-X POST'),
    },
    schema: {
      operationId: 'cancelDispatch',
      tags: ['dispatches'],
      summary: 'Cancel a dispatch',
      description:
        'With all its runs. 202: some are at work, and end within ten seconds. One that has ended stays as it is.',
      params,
      response: { 200: dispatch, 202: dispatch },
    },
    async handler(request, reply) {
      const { goalId } = request.params as { goalId: string }
      const found = await dispatchFor(relational, callerOf(request), goalId)
      const canceled = await change(request, { action: 'dispatch.cancel', target: goalId }, () =>
        cancelDispatch(relational, found.goalId, recordHeaders(request)),
      )
      if (canceled.status === 'running') reply.code(202)
      return viewOfDispatch(canceled)
    },
  })
}
