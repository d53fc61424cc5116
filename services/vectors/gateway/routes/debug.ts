/** GET /v1/debug/agent/{agent_id}: an agent's sessions, last operations and use of its limits. */

import type { TypeBoxTypeProvider } from '@fastify/type-provider-typebox'
import type { FastifyInstance } from 'fastify'
import { type Static, Type } from 'typebox'
import { AppError } from '#lib/errors.ts'
import { accessLevels, showAgent, tiers } from '#services/access/agents/agents.ts'
import { recentMax } from '#services/access/audit/trail/recent-operations.ts'
import { type Caller, callerOf } from '#services/access/callers/caller.ts'
import { readSessions } from '#services/access/callers/credentials.ts'
import type { LimitedCaller } from '#services/access/limits/limiter.ts'
import { limitsOf } from '#services/access/limits/limiter.ts'
import type { Gateway } from '../gateway.ts'
import { closedObject } from '../schemas.ts'

const params = closedObject({ agent_id: Type.String({ minLength: 1, maxLength: 64, examples: ['whale'] }) })
const nullable = (description: string) => Type.Union([Type.Integer(), Type.Null()], { description })
const time = Type.String({ format: 'date-time' })

const answer = Type.Object(
  {
    agent_id: Type.String(),
    role: Type.String(),
    access: Type.Enum([...accessLevels], { type: 'string', title: 'Access' }),
    tier: Type.Enum([...tiers], { type: 'string', title: 'Tier' }),
    sessions: Type.Array(
      Type.Object({
        key: Type.String({ description: 'The first six random characters of a gateway key, never more.' }),
        created_at: time,
        expires_at: time,
      }),
      { description: 'Gateway keys that are valid now, the newest first.' },
    ),
    operations: Type.Array(
      Type.Object({
        operation: Type.String(),
        collection: Type.Union([Type.String(), Type.Null()]),
        outcome: Type.String({ description: 'ok, a problem code, or unknown while the end is not known.' }),
        status_code: Type.Union([Type.Integer(), Type.Null()]),
        took_ms: Type.Union([Type.Number(), Type.Null()]),
        request_id: Type.String(),
        occurred_at: time,
        count: Type.Integer({ description: 'Above 1: a summary of refused requests.' }),
      }),
      { description: `The last ${recentMax} at all gateways, the newest first.` },
    ),
    quota: Type.Object({
      day: Type.Object({
        limit: nullable('Operations a UTC day; null: unlimited.'),
        used: nullable('Operations that began today at all gateways; null: not counted.'),
        remaining: nullable('null: unlimited.'),
        resets_at: time,
      }),
      burst: Type.Object({ limit: nullable('Operations that begin within any one second.') }),
      concurrent: Type.Object({
        limit: nullable('Operations at once.'),
        running: nullable('Those that run at this instance now; null: not counted.'),
      }),
    }),
  },
  { title: 'AgentDebug' },
)

export function registerDebug(scope: FastifyInstance, gateway: Gateway): void {
  const { relational } = gateway.context.engines
  scope.withTypeProvider<TypeBoxTypeProvider>().get(
    '/debug/agent/:agent_id',
    {
      config: { problems: ['forbidden', 'not_found', 'log_unavailable'] },
      schema: {
        operationId: 'debugAgent',
        tags: ['platform'],
        summary: "An agent's active sessions, last operations and use of its limits",
        params,
        response: { 200: answer },
      },
    },
    async (request): Promise<Static<typeof answer>> => {
      const { agent_id: asked } = request.params
      refuseStrangers(callerOf(request), asked)
      const agent = await showAgent(relational, asked)
      const [sessions, operations, quota] = await Promise.all([
        readSessions(relational, agent.uid),
        gateway.recentOperations.of(agent),
        quotaOf(gateway, agent),
      ])
      const { agent_id, role, access, tier } = agent
      return { agent_id, role, access, tier, sessions, operations, quota }
    },
  )
}

/** Ids differ by more than case. Who may not look learns nothing of who there is. */
function refuseStrangers(caller: Caller, asked: string): void {
  if (caller.agentId.toLowerCase() === asked.toLowerCase()) return
  if (caller.tier === 'infra-architect' || caller.access === 'admin') return
  throw new AppError(
    'forbidden',
    'Only the agent itself, infra-architects and admins may look at this agent.',
  )
}

async function quotaOf(gateway: Gateway, agent: LimitedCaller) {
  const limits = limitsOf(agent)
  const used = limits.day === null ? null : await gateway.limiter.usedToday(agent)
  return {
    day: {
      limit: limits.day,
      used,
      remaining: limits.day === null || used === null ? null : Math.max(0, limits.day - used),
      resets_at: new Date(new Date().setUTCHours(24, 0, 0, 0)).toISOString(),
    },
    burst: { limit: limits.rate },
    concurrent: {
      limit: limits.slots,
      running: limits.slots === null ? null : (gateway.limiter.status(agent)?.running ?? 0),
    },
  }
}
