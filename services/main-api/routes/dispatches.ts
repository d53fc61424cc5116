/** GET /api/v1/dispatches: the messages to all agents. One of them, its events and its end are routes of the run gateway. */

import type { TypeBoxTypeProvider } from '@fastify/type-provider-typebox'
import type { FastifyInstance } from 'fastify'
import { Type } from 'typebox'
import { listDispatchesOperation } from '#operations/runs.ts'
import { linkNext, page, readPage } from '#runtime/http/paging.ts'
import { callerOf } from '#services/access/callers/caller.ts'
import { dispatchStatuses } from '#services/runs/state/types.ts'
import type { MainApi } from '../main-api.ts'
import { operate } from '../operate.ts'
import { closed, orNull, time } from '../schemas.ts'

const status = Type.Enum([...dispatchStatuses], { type: 'string', title: 'DispatchStatus' })
const count = Type.Optional(Type.Integer())

const dispatches = Type.Array(
  Type.Object({
    goalId: Type.Integer({ description: 'The id of its goal, which is its own.' }),
    title: Type.String({ description: 'The first line of the message.' }),
    status,
    userId: Type.String(),
    sessionId: Type.String(),
    counts: Type.Object(
      { queued: count, running: count, completed: count, failed: count, canceled: count },
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
        response: { 200: dispatches },
      },
    },
    async (request, reply) => {
      const { status: wanted, limit, cursor } = request.query
      const { access, uid } = callerOf(request)
      const found = await operate(context, request, listDispatchesOperation, {
        ...(access === 'admin' ? {} : { own: uid }),
        ...(wanted === undefined ? {} : { status: wanted }),
        ...readPage({ ...(limit ? { limit } : {}), ...(cursor ? { cursor } : {}) }),
      })
      linkNext(request, reply, found.next ?? undefined)
      return found.dispatches
    },
  )
}
