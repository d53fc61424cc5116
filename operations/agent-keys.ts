/** Agent keys: issued, listed and revoked. */

import { Type } from 'typebox'
import {
  type AgentKeyRecord,
  issueAgentKey,
  listAgentKeys,
  revokeAgentKey,
} from '#services/access/agent-keys/agent-keys.ts'
import { waitUntilPublished } from '#services/access/agents/agents.ts'
import { type ChangeContext, defineChange } from './change.ts'
import { defineOperation } from './operation.ts'

export interface AgentKeyView {
  id: string
  agent_id: string
  label: string
  created_at: string
  last_used_at: string | null
  revoked_at: string | null
}

export const issueAgentKeyOperation = defineChange({
  name: 'agent-keys issue',
  action: 'agent-key.issue',
  targetOf: ({ agentId }) => agentId,
  needs: [],
  args: Type.Object({ agentId: Type.String(), label: Type.Optional(Type.String()) }),
  /** The key is in this answer and nowhere else. */
  async run({ platform, note }: ChangeContext, args): Promise<AgentKeyView & { key: string }> {
    const { record, key } = await issueAgentKey(platform.engines.relational, args, (tx, made) =>
      note(tx, { target: made.agent_id, after: { id: made.id, label: made.label } }),
    )
    return { ...viewOfKey(record), key }
  },
})

export const listAgentKeysOperation = defineOperation({
  name: 'agent-keys list',
  needs: [],
  args: Type.Object({ agentId: Type.Optional(Type.String()) }),
  async run({ platform }, { agentId }): Promise<{ agent_keys: AgentKeyView[] }> {
    return { agent_keys: (await listAgentKeys(platform.engines.relational, agentId)).map(viewOfKey) }
  },
})

export const revokeAgentKeyOperation = defineChange({
  name: 'agent-keys revoke',
  action: 'agent-key.revoke',
  targetOf: ({ id }) => id,
  needs: [],
  services: ['outbox-publisher'],
  args: Type.Object({ id: Type.String() }),
  /** The key and its tokens are refused on every instance when this resolves. */
  async run({ platform, note }: ChangeContext, { id }): Promise<AgentKeyView> {
    const { relational } = platform.engines
    const { record, outboxId } = await revokeAgentKey(relational, id, (tx, { agent_id, label }) =>
      note(tx, { before: { agent_id, label } }),
    )
    if (outboxId !== null) await waitUntilPublished(relational, outboxId)
    return viewOfKey(record)
  },
})

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
