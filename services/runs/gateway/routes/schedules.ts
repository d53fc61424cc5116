/** /schedules: messages that go to an agent, or to all, by the clock. The same at the run gateway and the main API. */

import type { FastifyInstance, FastifyRequest } from 'fastify'
import { Type } from 'typebox'
import { serverMark } from '#runtime/http/api/facts.ts'
import { linkNext, type PageParameters, page, placeOf, readPage } from '#runtime/http/paging.ts'
import { callerOf } from '#services/access/callers/caller.ts'
import { leastAccess } from '#services/access/callers/credentials.ts'
import { idempotencyHeaders, idempotent } from '#services/access/idempotency.ts'
import {
  changeSchedule,
  createSchedule,
  databaseNow,
  deleteSchedule,
  listFirings,
  listSchedules,
  newScheduleId,
  readSchedule as readRow,
  type Schedule,
  scheduleIdOf,
} from '../../schedules/schedules.ts'
import type { RunParts } from '../gateway.ts'
import { seenBy } from '../owned.ts'
import { bodyBytesMax } from '../requests.ts'
import {
  briefOfSchedule,
  firings,
  readSchedule,
  type ScheduleRequest,
  schedule,
  scheduleChanges,
  scheduleDeleted,
  scheduleNotFound,
  scheduleProblems,
  scheduleRequest,
  schedules,
  viewOfFiring,
  viewOfSchedule,
} from '../schedule-requests.ts'

const tags = ['schedules']
const params = Type.Object({ id: Type.String({ description: 'Its id.', maxLength: 128 }) })
const notFound = ['forbidden', 'schedule_not_found'] as const
const closedPage = Type.Object(page, { additionalProperties: false })

const credential = '-H "Authorization: Bearer $ID_TOKEN"'
const creation = (prefix: string) => `curl -sS "${serverMark}${prefix}/schedules" ${credential} \\
  -H 'Content-Type: application/json' -d '{"agent":"WHALE","message":"Any news?","cron":"0 7 * * *"}'`

/** Commands of the reference page that make one first. */
const sampleOf =
  (rest: string, options = '') =>
  (prefix: string) =>
    `SCHEDULE_ID=$(${creation(prefix)} | sed 's/.*"id":"\\(sched_[^"]*\\)".*/\\1/')
curl -sS${options} "${serverMark}${prefix}/schedules/$SCHEDULE_ID${rest}" ${credential}`

export function registerSchedules(scope: FastifyInstance, parts: RunParts): void {
  registerCreation(scope, parts)
  registerReading(scope, parts)
  registerChanges(scope, parts)
}

function registerCreation(scope: FastifyInstance, parts: RunParts): void {
  const { relational, nodes } = parts
  scope.route({
    method: 'POST',
    url: '/schedules',
    bodyLimit: bodyBytesMax,
    onRequest: leastAccess('member'),
    config: { operation: 'schedule.create', problems: [...scheduleProblems], sample: creation },
    schema: {
      operationId: 'createSchedule',
      tags,
      summary: 'Send a message by the clock',
      description:
        'Each planned time is one run, or one dispatch, of the caller, with the access that it has then; `trigger` of the run is ' +
        '`schedule`. Times that daylight saving leaves out fire once right after, those that come twice fire once. Ten failures in a row ' +
        'pause it, with a note to its owner. At most 100 for an owner.',
      headers: idempotencyHeaders,
      body: scheduleRequest,
      response: { 201: schedule },
    },
    async handler(request, reply) {
      const caller = callerOf(request)
      let made: Schedule | undefined
      // Within: a request that is repeated is answered as the first one, also when its time is over.
      const { id } = await idempotent(parts, request, reply, async (seed) => {
        const now = await databaseNow(relational)
        const fields = readSchedule(request.body as ScheduleRequest, { nodes: nodes.current(), now })
        const id = seed === undefined ? newScheduleId() : scheduleIdOf(seed)
        made = await parts.change(request, { action: 'schedule.create', target: `schedule/${id}` }, () =>
          createSchedule(relational, { ...fields, id, ownerUid: caller.uid }),
        )
        return { id }
      })
      const found = made ?? (await readRow(relational, id))
      if (!found) throw scheduleNotFound()
      reply.code(201)
      reply.header('location', `${placeOf(request)}/${id}`)
      return viewOfSchedule(found)
    },
  })
}

function registerReading(scope: FastifyInstance, { relational }: RunParts): void {
  scope.route({
    method: 'GET',
    url: '/schedules',
    config: { problems: ['forbidden'] },
    schema: {
      operationId: 'listSchedules',
      tags,
      summary: 'List schedules',
      description: 'Those of the caller; an admin sees all.',
      querystring: closedPage,
      response: { 200: schedules },
    },
    async handler(request, reply) {
      const own = seenBy(callerOf(request))
      const found = await listSchedules(relational, { own, ...readPage(request.query as PageParameters) })
      linkNext(request, reply, found.next)
      return found.schedules.map(briefOfSchedule)
    },
  })
  scope.route({
    method: 'GET',
    url: '/schedules/:id',
    config: { problems: [...notFound], sample: sampleOf('') },
    schema: {
      operationId: 'getSchedule',
      tags,
      summary: 'Show a schedule',
      params,
      response: { 200: schedule },
    },
    handler: async (request) => viewOfSchedule(await asked(relational, request)),
  })
  scope.route({
    method: 'GET',
    url: '/schedules/:id/runs',
    config: { problems: [...notFound], sample: sampleOf('/runs') },
    schema: {
      operationId: 'listScheduledRuns',
      tags,
      summary: 'List what became of its times',
      description: 'Kept as long as runs are. Of times that were missed in a row the first is there.',
      params,
      querystring: closedPage,
      response: { 200: firings },
    },
    async handler(request, reply) {
      const { id } = await asked(relational, request)
      const found = await listFirings(relational, { id, ...readPage(request.query as PageParameters) })
      linkNext(request, reply, found.next)
      return found.firings.map(viewOfFiring)
    },
  })
}

function registerChanges(scope: FastifyInstance, parts: RunParts): void {
  const { relational, nodes } = parts
  scope.route({
    method: 'PATCH',
    url: '/schedules/:id',
    bodyLimit: bodyBytesMax,
    onRequest: leastAccess('member'),
    config: {
      operation: 'schedule.change',
      problems: [...notFound, 'agent_not_found', 'payload_too_large'],
      sample: sampleOf('', ` -X PATCH -H 'Content-Type: application/json' -d '{"paused":true}'`),
    },
    schema: {
      operationId: 'updateSchedule',
      tags,
      summary: 'Change, pause or resume a schedule',
      description:
        'Going on after a pause begins a new count of failures; times of the pause do not count as missed.',
      params,
      body: scheduleChanges,
      response: { 200: schedule },
    },
    async handler(request) {
      const { id } = await asked(relational, request)
      const change = { action: 'schedule.change', target: `schedule/${id}` }
      return parts.change(request, change, async () => {
        const changed = await changeSchedule(relational, id, (before, now) =>
          readSchedule(request.body as ScheduleRequest, { nodes: nodes.current(), now, before }),
        )
        return viewOfSchedule(changed)
      })
    },
  })
  scope.route({
    method: 'DELETE',
    url: '/schedules/:id',
    onRequest: leastAccess('member'),
    config: { operation: 'schedule.delete', problems: [...notFound], sample: sampleOf('', ' -X DELETE') },
    schema: {
      operationId: 'deleteSchedule',
      tags,
      summary: 'Delete a schedule',
      description: 'Its runs stay, and those at work go on.',
      params,
      response: { 200: scheduleDeleted },
    },
    async handler(request) {
      const { id } = await asked(relational, request)
      return parts.change(request, { action: 'schedule.delete', target: `schedule/${id}` }, async () => {
        if (!(await deleteSchedule(relational, id))) throw scheduleNotFound()
        return { id, deleted: true as const }
      })
    },
  })
}

/** The schedule of the path, for its owner and admins. Throws AppError `schedule_not_found`. */
async function asked(relational: RunParts['relational'], request: FastifyRequest): Promise<Schedule> {
  const { id } = request.params as { id: string }
  const found = /^sched_[0-9a-f]{32}$/.test(id) ? await readRow(relational, id) : null
  const own = seenBy(callerOf(request))
  if (!found || (own !== null && found.ownerUid !== own)) throw scheduleNotFound()
  return found
}
