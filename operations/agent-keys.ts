/** Agent keys: issued, listed and revoked. */

import { type Static, Type } from 'typebox'
import { serverMark } from '#runtime/http/api/facts.ts'
import {
  type AgentKeyRecord,
  issueAgentKey,
  listAgentKeys,
  revokeAgentKey,
} from '#services/access/agent-keys/agent-keys.ts'
import { waitUntilPublished } from '#services/access/agents/agents.ts'
import { type Action, defineAction, tableOf } from './action.ts'
import { agentInPath, agentServices } from './agents/agent.ts'
import { orNull, time } from './shapes.ts'

const fields = {
  id: Type.String({ examples: ['ak_01jd3w7x5m8qk2v9r4t6y0z1ab'] }),
  agent_id: Type.String(),
  label: Type.String(),
  created_at: time,
  last_used_at: orNull(time, 'To the minute; null: never.'),
  revoked_at: orNull(time, 'null: it is live.'),
}

const agentKey = Type.Object(fields, { title: 'AgentKey' })
export type AgentKeyView = Static<typeof agentKey>
const issued = Type.Object(
  { ...fields, key: Type.String({ description: 'svc_… : shown here, once, and kept nowhere.' }) },
  { title: 'IssuedAgentKey' },
)
const listed = Type.Object(
  { agent_keys: Type.Array(agentKey, { description: 'The newest first, at most 1000.' }) },
  { title: 'AgentKeys' },
)

const issueSample = `answer=$(curl -sS "${serverMark}/api/v1/agent-keys" -H "Authorization: Bearer $ID_TOKEN" \\
  -H 'Content-Type: application/json' -d '{"agent_id":"whale","label":"on the build machine"}')
echo "$answer"
export AGENT_KEY_ID=$(echo "$answer" | sed 's/.*"id":"\\([^"]*\\)".*/\\1/')`

/** The one that the request of issuing exports. */
const revokeSample = `curl -sS -X DELETE "${serverMark}/api/v1/agent-keys/$AGENT_KEY_ID" \\
  -H "Authorization: Bearer $ID_TOKEN"`

export const issueAgentKeyAction = defineAction({
  name: 'agent-keys issue',
  summary: 'Issue an agent key',
  args: Type.Object({ agent_id: Type.String(), label: Type.Optional(Type.String()) }),
  change: { action: 'agent-key.issue', target: ({ agent_id }) => agent_id },
  /** The key is in this answer and nowhere else. */
  async run({ platform, note }, { agent_id: agentId, ...label }) {
    const { relational } = platform.engines
    const { record, key } = await issueAgentKey(relational, { agentId, ...label }, (tx, made) =>
      note(tx, { target: made.agent_id, after: { id: made.id, label: made.label } }),
    )
    return { ...viewOfKey(record), key }
  },
  http: {
    role: 'admin',
    problems: ['not_found', 'conflict'],
    method: 'POST',
    path: '/agent-keys',
    operationId: 'issueAgentKey',
    tag: 'identity',
    fields: {
      agent_id: agentInPath,
      label: Type.Optional(Type.String({ maxLength: 64, examples: ['on the build machine'] })),
    },
    body: { title: 'NewAgentKey' },
    answer: issued,
    status: 201,
    headers: () => ({ 'cache-control': 'no-store' }),
    sample: issueSample,
  },
  cli: [
    {
      summary: 'Make a key; it is shown once and kept nowhere else',
      positional: ['agent_id'],
      options: { label: ['label', 'what it is for; at most 64 characters'] },
      example: 'flotilla agent-keys issue scout --label laptop',
      render: (made) => ({ fields: made }),
    },
  ],
})

export const listAgentKeysAction = defineAction({
  name: 'agent-keys list',
  summary: 'The agent keys, of all agents or of one',
  args: Type.Object({ agent_id: Type.Optional(Type.String()) }),
  async run({ platform }, { agent_id }) {
    return { agent_keys: (await listAgentKeys(platform.engines.relational, agent_id)).map(viewOfKey) }
  },
  http: {
    role: 'admin',
    problems: ['not_found'],
    method: 'GET',
    path: '/agent-keys',
    operationId: 'listAgentKeys',
    tag: 'identity',
    fields: { agent_id: Type.Optional(agentInPath) },
    answer: listed,
  },
  cli: [
    {
      summary: 'Keys of all agents, or of one, the newest first',
      positional: ['agent_id'],
      example: 'flotilla agent-keys list scout',
      render: ({ agent_keys }) =>
        tableOf(agent_keys, {
          key: ({ id }) => id,
          agent: ({ agent_id }) => agent_id,
          label: ({ label }) => label,
          created: ({ created_at }) => created_at,
          'last used': ({ last_used_at }) => last_used_at,
          revoked: ({ revoked_at }) => revoked_at,
        }),
    },
  ],
})

export const revokeAgentKeyAction = defineAction({
  name: 'agent-keys revoke',
  summary: 'Revoke an agent key and the tokens bought with it',
  services: agentServices,
  args: Type.Object({ id: Type.String() }),
  change: { action: 'agent-key.revoke', target: ({ id }) => id },
  /** The key and its tokens are refused on every instance when this resolves. */
  async run({ platform, note }, { id }) {
    const { relational } = platform.engines
    const { record, outboxId } = await revokeAgentKey(relational, id, (tx, { agent_id, label }) =>
      note(tx, { before: { agent_id, label } }),
    )
    if (outboxId !== null) await waitUntilPublished(relational, outboxId)
    return viewOfKey(record)
  },
  http: {
    role: 'admin',
    problems: ['not_found', 'log_unavailable'],
    method: 'DELETE',
    path: '/agent-keys/:id',
    operationId: 'revokeAgentKey',
    tag: 'identity',
    fields: { id: Type.String({ maxLength: 64 }) },
    answer: agentKey,
    sample: revokeSample,
  },
  cli: [
    {
      positional: ['id'],
      example: 'flotilla agent-keys revoke ak_01jd3w7x5m8qk2v9r4t6y0z1ab',
      render: ({ id, agent_id }) => `${id} of ${agent_id} is revoked`,
    },
  ],
})

export const agentKeyActions: readonly Action[] = [
  issueAgentKeyAction,
  listAgentKeysAction,
  revokeAgentKeyAction,
]

function viewOfKey(record: AgentKeyRecord): AgentKeyView {
  const { id, agent_id, label, created_at, last_used_at, revoked_at } = record
  return {
    id,
    agent_id,
    label,
    created_at: created_at.toISOString(),
    last_used_at: last_used_at?.toISOString() ?? null,
    revoked_at: revoked_at?.toISOString() ?? null,
  }
}
