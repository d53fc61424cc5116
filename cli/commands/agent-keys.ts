/** `flotilla agent-keys`: the keys that agents trade for tokens of the main API. */

import type { Command as Program } from 'commander'
import {
  type AgentKeyView,
  issueAgentKeyOperation,
  listAgentKeysOperation,
  revokeAgentKeyOperation,
} from '#operations/agent-keys.ts'
import { type Cli, describe } from '../cli.ts'
import { fields, line, table } from '../output.ts'

export function registerAgentKeys(program: Program, cli: Cli): void {
  const keys = program.command('agent-keys').description('keys that agents trade for tokens of the main API')
  const issue = keys
    .command('issue')
    .argument('<agent-id>')
    .description('make a key; it is shown once and kept nowhere else')
    .option('--label <label>', 'what it is for; at most 64 characters')
  describe(issue, 'flotilla agent-keys issue scout --label laptop').action(
    async (agentId: string, { json, label }: { json?: boolean; label?: string }) => {
      const args = { agentId, ...(label === undefined ? {} : { label }) }
      await cli.run(issueAgentKeyOperation, args, { json, render: (key) => fields({ ...key }) })
    },
  )
  const list = keys
    .command('list')
    .argument('[agent-id]')
    .description('keys of all agents, or of one, the newest first')
  describe(list, 'flotilla agent-keys list scout').action(
    async (agentId: string | undefined, { json }: { json?: boolean }) => {
      const args = agentId === undefined ? {} : { agentId }
      await cli.run(listAgentKeysOperation, args, { json, render: renderList })
    },
  )
  const revoke = keys
    .command('revoke')
    .argument('<key-id>')
    .description('end the key and the tokens bought with it, everywhere')
  describe(revoke, 'flotilla agent-keys revoke ak_01jd3w7x5m8qk2v9r4t6y0z1ab').action(
    async (id: string, { json }: { json?: boolean }) => {
      await cli.run(
        revokeAgentKeyOperation,
        { id },
        { json, render: (key) => line`${key.id} of ${key.agent_id} is revoked` },
      )
    },
  )
}

function renderList({ agent_keys }: { agent_keys: AgentKeyView[] }): string {
  const rows = agent_keys.map(({ id, agent_id, label, created_at, last_used_at, revoked_at }) => [
    id,
    agent_id,
    label,
    created_at,
    last_used_at,
    revoked_at,
  ])
  return table(['key', 'agent', 'label', 'created', 'last used', 'revoked'], rows)
}
