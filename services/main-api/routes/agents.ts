/** /api/v1/agents: who may use the platform; listed, shown, changed and deleted. */

import type { TypeBoxTypeProvider } from '@fastify/type-provider-typebox'
import type { FastifyInstance } from 'fastify'
import { Type } from 'typebox'
import { deleteAgentOperation, listAgentsOperation, updateAgentOperation } from '#operations/agents.ts'
import { showAgentOperation } from '#operations/agents-show.ts'
import { callerOf } from '#services/access/callers/caller.ts'
import { closed } from '../envelope.ts'
import type { MainApi } from '../main-api.ts'
import { operate } from '../operate.ts'
import { agent, agentFields, agentSettings, orNull, time } from '../schemas.ts'

const agents = Type.Object({ agents: Type.Array(agent) }, { title: 'Agents' })

export const agentParams = Type.Object(
  { agent_id: Type.String({ minLength: 1, maxLength: 64, examples: ['whale'] }) },
  closed,
)

const figure = orNull(Type.Integer({ minimum: 0 }))

const shownAgent = Type.Object(
  {
    ...agentFields,
    created_at: time,
    updated_at: time,
    limits: Type.Object({
      day: Type.Object({ limit: figure, used: Type.Integer(), remaining: figure }),
      burst: Type.Object({ limit: figure }),
      concurrent: Type.Object({ limit: figure }),
    }),
    sessions: Type.Optional(
      Type.Array(Type.Object({ key: Type.String(), created_at: time, expires_at: time }), {
        description:
          'Gateway keys that are valid now, by their first six random characters. For the agent itself and admins.',
      }),
    ),
    operations: Type.Optional(
      Type.Array(
        Type.Object({
          operation: Type.String(),
          collection: orNull(Type.String()),
          outcome: Type.String(),
          status_code: orNull(Type.Integer()),
          took_ms: orNull(Type.Number()),
          request_id: Type.String(),
          occurred_at: time,
          count: Type.Integer(),
        }),
        { description: 'The last 50, the newest first. For the agent itself and admins.' },
      ),
    ),
  },
  { title: 'ShownAgent' },
)

const changes = Type.Object(
  {
    name: Type.Optional(Type.String({ description: 'What people read.' })),
    ...agentSettings,
  },
  { ...closed, title: 'AgentChanges', minProperties: 1, examples: [{ role: 'analyst', burst: 100 }] },
)

const deletedAgent = Type.Object(
  { agent_id: Type.String(), uid: Type.String(), deleted: Type.Literal(true) },
  { title: 'DeletedAgent' },
)

const reads = ['forbidden', 'relational_engine_unavailable'] as const
const writes = [...reads, 'not_found', 'log_unavailable'] as const

export function registerAgents(scope: FastifyInstance, { context }: MainApi): void {
  const routes = scope.withTypeProvider<TypeBoxTypeProvider>()
  routes.get(
    '/agents',
    {
      config: { problems: reads },
      schema: {
        operationId: 'listAgents',
        tags: ['agents'],
        summary: 'All agents, by their ids',
        response: { 200: agents },
      },
    },
    (request) => operate(context, request, listAgentsOperation, {}),
  )
  routes.get(
    '/agents/:agent_id',
    {
      config: { problems: [...reads, 'not_found', 'log_unavailable'] },
      schema: {
        operationId: 'showAgent',
        tags: ['agents'],
        summary: 'One agent, with its limits and what it used of them',
        params: agentParams,
        response: { 200: shownAgent },
      },
    },
    async (request) => {
      const { agent_id: agentId } = request.params
      const { sessions, operations, ...shown } = await operate(context, request, showAgentOperation, {
        agentId,
      })
      const { uid, access } = callerOf(request)
      const all = access === 'admin' || uid === shown.uid
      return all ? { ...shown, sessions, operations } : shown
    },
  )
  routes.patch(
    '/agents/:agent_id',
    {
      config: { problems: writes },
      schema: {
        operationId: 'updateAgent',
        tags: ['agents'],
        summary: 'Change what is named',
        description:
          'It acts on every instance when this answers, also on open streams and on keys that are in use.',
        params: agentParams,
        body: changes,
        response: { 200: agent },
      },
    },
    async (request) => {
      const args = { agentId: request.params.agent_id, ...request.body }
      return operate(context, request, updateAgentOperation, args)
    },
  )
  routes.delete(
    '/agents/:agent_id',
    {
      config: { problems: writes },
      schema: {
        operationId: 'deleteAgent',
        tags: ['agents'],
        summary: 'Delete an agent; its keys and tokens end with it',
        params: agentParams,
        response: { 200: deletedAgent },
      },
    },
    async (request) => {
      const { agent_id: agentId } = request.params
      const { agent_id, uid, deleted } = await operate(context, request, deleteAgentOperation, { agentId })
      return { agent_id, uid, deleted }
    },
  )
}
