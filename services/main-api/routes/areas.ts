/**
 * /api/v1/fleet_notes, goals, runs, dispatches, sessions and schedules: the routes of their areas, with the audit of changes, and the list of
 * dispatches.
 */

import type { TypeBoxTypeProvider } from '@fastify/type-provider-typebox'
import type { FastifyInstance } from 'fastify'
import { Type } from 'typebox'
import { defineAction } from '#operations/action.ts'
import { linkNext, page, readPage } from '#runtime/http/paging.ts'
import type { RunChange } from '#services/access/admin-audit/admin-audit.ts'
import { callerOf } from '#services/access/callers/caller.ts'
import { registerGoals } from '#services/records/api/goals.ts'
import { type HubParts, registerNotes } from '#services/records/api/notes.ts'
import type { RunParts } from '#services/runs/gateway/gateway.ts'
import { registerDispatchCreation, registerDispatches } from '#services/runs/gateway/routes/dispatches.ts'
import { registerInputLater } from '#services/runs/gateway/routes/input.ts'
import { registerRunCreation } from '#services/runs/gateway/routes/run.ts'
import { registerRuns } from '#services/runs/gateway/routes/runs.ts'
import { registerSchedules } from '#services/runs/gateway/routes/schedules.ts'
import { registerSessions } from '#services/runs/gateway/routes/sessions.ts'
import { listDispatches } from '#services/runs/state/dispatches.ts'
import { dispatchStatuses } from '#services/runs/state/types.ts'
import type { MainApi } from '../main-api.ts'
import { type MainApiContext, operate } from '../operate.ts'
import { closed, orNull, time } from '../schemas.ts'

export async function registerAreas(
  scope: FastifyInstance,
  { context, feed, runs, streams }: MainApi,
): Promise<void> {
  const { relational } = context.engines
  const change = notedChange(context)
  const records: HubParts = { relational, feed, streams, change, log: context.log }
  const started: RunParts = { ...runs, streams, change }
  await scope.register(async (areas) => {
    ofTheFleet(areas)
    registerNotes(areas, records)
    registerGoals(areas, records)
    registerRuns(areas, started)
    registerDispatches(areas, started)
    registerRunCreation(areas, started)
    registerInputLater(areas, started)
    registerDispatchCreation(areas, started)
    registerSessions(areas, started)
    registerSchedules(areas, started)
  })
}

/** operationIds are unique over all interfaces: `listNotes` of the hub is `listFleetNotes` here. */
function ofTheFleet(scope: FastifyInstance): void {
  scope.addHook('onRoute', (route) => {
    const { operationId } = route.schema ?? {}
    if (operationId)
      route.schema = { ...route.schema, operationId: operationId.replace(/^[a-z]+/, '$&Fleet') }
  })
}

/** What it notes wakes the outbox-publisher for the record, too. */
function notedChange(context: MainApiContext): RunChange {
  return (request, { action, target }, work) => {
    const change = defineAction({
      name: action,
      summary: action,
      args: Type.Object({}),
      change: { action, target: () => target },
      run: (changing) => work(changing),
    })
    return operate(context, request, change, {})
  }
}

const status = Type.Enum([...dispatchStatuses], { type: 'string', title: 'DispatchStatus' })
const count = Type.Optional(Type.Integer())

const dispatchList = Type.Array(
  Type.Object({
    goalId: Type.Integer({ description: 'The id of its goal, which is its own.' }),
    title: Type.String({ description: 'The first line of the message.' }),
    status,
    userId: Type.String(),
    sessionId: Type.String(),
    counts: Type.Object(
      {
        queued: count,
        running: count,
        input_required: count,
        completed: count,
        failed: count,
        canceled: count,
      },
      { description: 'Runs of its agents by status; a status that none has is absent.' },
    ),
    deadline: time,
    createdAt: time,
    endedAt: orNull(time),
  }),
  { title: 'Dispatches', description: 'The newest first.' },
)

export function registerDispatchList(scope: FastifyInstance, { context }: MainApi): void {
  scope.withTypeProvider<TypeBoxTypeProvider>().get(
    '/dispatches',
    {
      config: { problems: ['forbidden', 'relational_engine_unavailable'] },
      schema: {
        operationId: 'listFleetDispatches',
        tags: ['dispatches'],
        summary: 'List dispatches, the newest first',
        description: 'Those that the caller started or that are of the caller as a user; an admin sees all.',
        querystring: Type.Object({ ...page, status: Type.Optional(status) }, closed),
        response: { 200: dispatchList },
      },
    },
    async (request, reply) => {
      const { status: wanted, limit, cursor } = request.query
      const { access, uid } = callerOf(request)
      const { dispatches, next } = await listDispatches(context.engines.relational, {
        ...(access === 'admin' ? {} : { own: uid }),
        ...(wanted === undefined ? {} : { status: wanted }),
        ...readPage({ ...(limit ? { limit } : {}), ...(cursor ? { cursor } : {}) }),
      })
      linkNext(request, reply, next ?? undefined)
      return dispatches.map(({ deadline, createdAt, endedAt, ...one }) => ({
        ...one,
        deadline: deadline.toISOString(),
        createdAt: createdAt.toISOString(),
        endedAt: endedAt?.toISOString() ?? null,
      }))
    },
  )
}
