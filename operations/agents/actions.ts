/** Who may use the platform: agents are listed, shown, changed and deleted. */

import { Type } from 'typebox'
import { deleteAgent, listAgents, showAgent, updateAgent } from '#services/access/agents/agents.ts'
import { createRecentOperations } from '#services/access/audit/trail/recent-operations.ts'
import { readSessions } from '#services/access/callers/credentials.ts'
import { limitRowsOf } from '#services/access/limits/limit-rows.ts'
import { limitsOf } from '#services/access/limits/limiter.ts'
import { type Action, defineAction, tableOf } from '../action.ts'
import { orNull, time } from '../shapes.ts'
import {
  agent,
  agentFields,
  agentInPath,
  agentServices,
  agentSettings,
  noteOf,
  published,
  reads,
  viewOf,
  writes,
} from './agent.ts'
import { provisionAgentAction, provisionRemoteAction, rotateAgentAction, rotateRemoteAction } from './keys.ts'

const inPath = { agent_id: agentInPath }
const figure = orNull(Type.Integer({ minimum: 0 }))

export const listAgentsAction = defineAction({
  name: 'agents list',
  summary: 'All agents, by their ids',
  args: Type.Object({}),
  async run({ platform }) {
    return { agents: (await listAgents(platform.engines.relational)).map(viewOf) }
  },
  http: {
    role: 'viewer',
    problems: reads,
    method: 'GET',
    path: '/agents',
    operationId: 'listAgents',
    tag: 'agents',
    answer: Type.Object({ agents: Type.Array(agent) }, { title: 'Agents' }),
  },
  cli: [
    {
      example: 'flotilla agents list',
      render: ({ agents }) =>
        tableOf(agents, {
          agent: ({ agent_id }) => agent_id,
          role: ({ role }) => role,
          access: ({ access }) => access,
          tier: ({ tier }) => tier,
          quota: ({ quota }) => quota,
          burst: ({ burst }) => burst,
          concurrent: ({ concurrent }) => concurrent,
          key: ({ public_key_fingerprint }) => public_key_fingerprint,
        }),
    },
  ],
})

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
const orUnlimited = (limit: number | null) => limit ?? 'unlimited'
const tenths = (ms: number | null) => ms && Math.round(ms * 10) / 10

export const showAgentAction = defineAction({
  name: 'agents show',
  summary: 'One agent: its sessions, its last operations, its limits and what it used of them today',
  args: Type.Object({ agent_id: Type.String() }),
  async run({ platform }, { agent_id }) {
    const { relational } = platform.engines
    const found = await showAgent(relational, agent_id)
    const [sessions, operations, used] = await Promise.all([
      readSessions(relational, found.uid),
      createRecentOperations(platform).of(found),
      limitRowsOf(relational).usedToday(found.uid),
    ])
    const { day, rate, slots } = limitsOf(found)
    return {
      ...viewOf(found),
      created_at: found.created_at.toISOString(),
      updated_at: found.updated_at.toISOString(),
      sessions,
      operations,
      limits: {
        day: { limit: day, used, remaining: day === null ? null : Math.max(0, day - used) },
        burst: { limit: rate },
        concurrent: { limit: slots },
      },
    }
  },
  http: {
    role: 'viewer',
    problems: [...reads, 'not_found', 'log_unavailable'],
    method: 'GET',
    path: '/agents/:agent_id',
    operationId: 'showAgent',
    tag: 'agents',
    fields: inPath,
    answer: shownAgent,
    view({ sessions, operations, ...shown }, { caller: { access, uid } }) {
      return access === 'admin' || uid === shown.uid ? { ...shown, sessions, operations } : shown
    },
  },
  cli: [
    {
      positional: ['agent_id'],
      example: 'flotilla agents show scout',
      render: ({ sessions, operations, limits: { day, burst, concurrent }, ...shown }) => [
        {
          fields: {
            ...shown,
            today: day.limit === null ? 'unlimited' : `${day.used} of ${day.limit} operations`,
            burst: `${orUnlimited(burst.limit)} a second`,
            concurrent: orUnlimited(concurrent.limit),
          },
        },
        tableOf(sessions, {
          session: ({ key }) => `vk_live_${key}…`,
          since: ({ created_at }) => created_at,
          until: ({ expires_at }) => expires_at,
        }),
        tableOf(operations, {
          at: ({ occurred_at }) => occurred_at,
          operation: ({ operation }) => operation,
          collection: ({ collection }) => collection,
          outcome: ({ outcome }) => outcome,
          ms: ({ took_ms }) => tenths(took_ms),
          times: ({ count }) => count,
        }),
      ],
    },
  ],
})

const updateAgentAction = defineAction({
  name: 'agents update',
  summary: 'Change what is named; it acts on every instance when this is done',
  services: agentServices,
  args: Type.Object({
    agent_id: Type.String(),
    name: Type.Optional(Type.String({ description: 'What people read.' })),
    ...agentSettings,
  }),
  change: { action: 'agent.update', target: ({ agent_id }) => agent_id },
  async run(context, { agent_id, ...changes }) {
    const { platform } = context
    const updating = updateAgent(platform.engines.relational, agent_id, changes, noteOf(context))
    return viewOf((await published(platform, updating)).agent)
  },
  http: {
    role: 'admin',
    problems: writes,
    method: 'PATCH',
    path: '/agents/:agent_id',
    operationId: 'updateAgent',
    tag: 'agents',
    description: 'Also on open streams and on keys that are in use.',
    fields: inPath,
    body: { title: 'AgentChanges', minProperties: 1, examples: [{ role: 'analyst', burst: 100 }] },
    answer: agent,
  },
  cli: [
    {
      positional: ['agent_id'],
      options: {
        role: ['role', 'a free label'],
        access: ['access', 'a viewer may only read'],
        quota: ['operations', "operations a day; default: the tier's own"],
        burst: ['operations', "operations a second; default: the tier's own"],
        concurrent: ['operations', "operations at once; default: the tier's own"],
        tier: ['tier', 'limits where no figure is set'],
        name: ['name', 'what people read'],
      },
      example: 'flotilla agents update scout --access viewer --burst 100 --quota default',
      render: (updated) => ({ fields: updated }),
    },
    {
      name: 'agents tier',
      summary: 'Another tier: its daily operations, burst and concurrency',
      positional: ['agent_id', 'tier'],
      example: 'flotilla agents tier scout research-agent',
      render: ({ agent_id, tier }) => `${agent_id} has the tier ${tier}`,
    },
  ],
})

export const deleteAgentAction = defineAction({
  name: 'agents delete',
  summary: 'Delete an agent; its keys and tokens end with it',
  services: agentServices,
  args: Type.Object({ agent_id: Type.String() }),
  change: { action: 'agent.delete', target: ({ agent_id }) => agent_id },
  async run(context, { agent_id }) {
    const { platform } = context
    const deleting = deleteAgent(platform.engines.relational, agent_id, noteOf(context))
    return { ...viewOf((await published(platform, deleting)).agent), deleted: true as const }
  },
  http: {
    role: 'admin',
    problems: writes,
    method: 'DELETE',
    path: '/agents/:agent_id',
    operationId: 'deleteAgent',
    tag: 'agents',
    fields: inPath,
    answer: Type.Object(
      { agent_id: Type.String(), uid: Type.String(), deleted: Type.Literal(true) },
      { title: 'DeletedAgent' },
    ),
    view: ({ agent_id, uid, deleted }) => ({ agent_id, uid, deleted }),
  },
  cli: [
    {
      positional: ['agent_id'],
      example: 'flotilla agents delete scout',
      render: ({ agent_id }) => `${agent_id} is deleted`,
    },
  ],
})

export const agentActions: readonly Action[] = [
  provisionAgentAction,
  listAgentsAction,
  showAgentAction,
  rotateAgentAction,
  deleteAgentAction,
  updateAgentAction,
  provisionRemoteAction,
  rotateRemoteAction,
]
