/** /runs: what became of the messages to agents. */

import type { FastifyInstance } from 'fastify'
import { Type } from 'typebox'
import { recordHeaders } from '#runtime/http/app.ts'
import { linkNext, type PageParameters, page, readPage } from '#runtime/http/paging.ts'
import { callerOf } from '#services/access/callers/caller.ts'
import { leastAccess } from '#services/access/callers/credentials.ts'
import { openFollow } from '../../follow/follow.ts'
import { runAlone, treeOf } from '../../follow/subjects.ts'
import { cancelRun } from '../../state/end.ts'
import { listRuns, type RunQuery } from '../../state/read.ts'
import type { RunParts } from '../gateway.ts'
import { runFor } from '../owned.ts'
import { endOfRun, eventStream, joinQuery, run, runs, status, streamText, viewOfRun } from '../views.ts'
import { runSample } from './samples.ts'
import { afterOf, answerEvents, hasAll, nothingMore, streamHeaders, streamQuery } from './stream.ts'

const filter = (description: string) =>
  Type.Optional(Type.String({ minLength: 1, maxLength: 1_024, pattern: '^[^\\u0000]*$', description }))

const filters = {
  agent: filter('A codename or slug.'),
  status: Type.Optional(status),
  userId: filter('The name of a user.'),
  sessionId: filter('A session.'),
  goalId: Type.Optional(Type.String({ pattern: '^[1-9]\\d{0,14}$', description: 'A dispatch.' })),
  rootRunId: filter('The run whose tree it is.'),
}

type Filters = Pick<RunQuery, keyof typeof filters>

const params = Type.Object({ runId: Type.String({ description: 'Its id.', maxLength: 128 }) })

export function registerRuns(scope: FastifyInstance, parts: RunParts): void {
  registerList(scope, parts)
  registerShow(scope, parts)
  registerEvents(scope, parts)
  registerCancel(scope, parts)
}

function registerList(scope: FastifyInstance, { relational }: RunParts): void {
  scope.route({
    method: 'GET',
    url: '/runs',
    config: { problems: ['forbidden'] },
    schema: {
      operationId: 'listRuns',
      tags: ['runs'],
      summary: 'List runs, the newest first',
      description:
        'Those that the caller started or that are of the caller as a user; an admin sees all, reports to the orchestrator among them.',
      querystring: Type.Object({ ...page, ...filters }, { additionalProperties: false }),
      response: { 200: runs },
    },
    async handler(request, reply) {
      const { limit, cursor, ...asked } = request.query as PageParameters & Filters
      const { access, uid } = callerOf(request)
      const found = await listRuns(relational, {
        ...asked,
        ...(access === 'admin' ? { all: true } : { callerUid: uid, userUid: uid }),
        ...readPage(request.query as PageParameters),
      })
      linkNext(request, reply, found.next)
      return found.runs.map(viewOfRun)
    },
  })
}

function registerShow(scope: FastifyInstance, { relational }: RunParts): void {
  scope.route({
    method: 'GET',
    url: '/runs/:runId',
    config: { problems: ['forbidden', 'run_not_found'], sample: runSample('') },
    schema: {
      operationId: 'getRun',
      tags: ['runs'],
      summary: 'Show a run',
      params,
      response: { 200: run },
    },
    async handler(request) {
      const { runId } = request.params as { runId: string }
      return viewOfRun(await runFor(relational, callerOf(request), runId))
    },
  })
}

function registerEvents(scope: FastifyInstance, parts: RunParts): void {
  scope.route({
    method: 'GET',
    url: '/runs/:runId/events',
    config: {
      problems: ['forbidden', 'run_not_found', 'too_many_streams'],
      sample: runSample('/events', '-N --max-time 5'),
    },
    schema: {
      operationId: 'followRun',
      tags: ['runs'],
      summary: 'Follow the events of a run',
      description: `${streamText} Those of a run that joined another one are its own alone.`,
      params,
      querystring: Type.Object({ ...streamQuery, join: joinQuery }),
      headers: streamHeaders,
      response: { 200: eventStream('Events, also of a run that has ended.'), 204: nothingMore },
    },
    async handler(request, reply) {
      const { runId } = request.params as { runId: string }
      const after = afterOf(request)
      const { rootRunId } = await runFor(parts.relational, callerOf(request), runId)
      const whole = runId === rootRunId && (request.query as { join?: string }).join !== 'false'
      const subject = whole ? treeOf(parts.relational, runId) : runAlone(parts.relational, runId, rootRunId)
      if (await hasAll(subject, after)) return reply.code(204).send()
      const events = { follow: openFollow(parts, subject), after, endOf: endOfRun }
      return answerEvents(parts.streams, request, reply, events)
    },
  })
}

function registerCancel(scope: FastifyInstance, { relational, change }: RunParts): void {
  scope.route({
    method: 'POST',
    url: '/runs/:runId/cancel',
    onRequest: leastAccess('member'),
    config: {
      operation: 'run.cancel',
      problems: ['forbidden', 'run_not_found'],
      sample: runSample('/cancel', '-X POST'),
    },
    schema: {
      operationId: 'cancelRun',
      tags: ['runs'],
      summary: 'Cancel a run',
      description:
        'With the runs that joined it. 202: it is at work, and ends within ten seconds. A run that has ended stays as it is.',
      params,
      response: { 200: run, 202: run },
    },
    async handler(request, reply) {
      const { runId } = request.params as { runId: string }
      await runFor(relational, callerOf(request), runId)
      const canceled = await change(request, { action: 'run.cancel', target: runId }, () =>
        cancelRun(relational, runId, recordHeaders(request)),
      )
      if (canceled.status === 'running') reply.code(202)
      return viewOfRun(canceled)
    },
  })
}
