/** `flotilla agents show`: who an agent is, its sessions, its last operations, what it used of its limits. */

import type { Command as Program } from 'commander'
import { createRecentOperations, type RecentOperation } from '#services/audit/trail/recent-operations.ts'
import { showAgent } from '#services/identity/agents/agents.ts'
import { readSessions, type Session } from '#services/identity/gateway-keys/sessions.ts'
import { readUsedToday } from '#services/limits/shared-rows.ts'
import { limitsOf } from '#services/limits/tiers.ts'
import { type Cli, describe } from '../cli.ts'
import { defineCommand } from '../command.ts'
import { fields, table } from '../output.ts'
import { type AgentView, viewOf } from './agents.ts'

interface ShownAgent extends AgentView {
  name: string
  created_at: string
  updated_at: string
  /** Gateway keys that are valid now, by their first six random characters. */
  sessions: Session[]
  /** The last 50 at all gateways, the newest first. */
  operations: RecentOperation[]
  /** null: unlimited. */
  limits: {
    day: { limit: number | null; used: number; remaining: number | null }
    burst: { limit: number | null }
    concurrent: { limit: number | null }
  }
}

export const showCommand = defineCommand<{ agentId: string }, ShownAgent>({
  name: 'agents show',
  needs: [],
  async run({ platform }, { agentId }) {
    const { relational } = platform.engines
    const agent = await showAgent(relational, agentId)
    const [sessions, operations, used] = await Promise.all([
      readSessions(relational, agent.uid),
      createRecentOperations(platform).of(agent.agent_id),
      readUsedToday(relational, agent.uid),
    ])
    const { day, rate, slots } = limitsOf(agent)
    return {
      ...viewOf(agent),
      name: agent.name,
      created_at: agent.created_at.toISOString(),
      updated_at: agent.updated_at.toISOString(),
      sessions,
      operations,
      limits: {
        day: { limit: day, used, remaining: day === null ? null : Math.max(0, day - used) },
        burst: { limit: rate },
        concurrent: { limit: slots },
      },
    }
  },
})

export function registerShow(agents: Program, cli: Cli): void {
  const show = agents
    .command('show')
    .argument('<agent-id>')
    .description('one agent: sessions, last operations, use of its limits')
  describe(show, 'flotilla agents show scout').action(
    async (agentId: string, { json }: { json?: boolean }) => {
      await cli.run(showCommand, { agentId }, { json, render })
    },
  )
}

function render({ sessions, operations, limits, ...agent }: ShownAgent): string {
  const { day, burst, concurrent } = limits
  const of = (limit: number | null) => limit ?? 'unlimited'
  const parts = [
    fields({
      ...agent,
      today: day.limit === null ? 'unlimited' : `${day.used} of ${day.limit} operations`,
      burst: `${of(burst.limit)} a second`,
      concurrent: of(concurrent.limit),
    }),
    table(
      ['session', 'since', 'until'],
      sessions.map(({ key, created_at, expires_at }) => [`vk_live_${key}…`, created_at, expires_at]),
    ),
    table(
      ['at', 'operation', 'collection', 'outcome', 'ms', 'times'],
      operations.map((one) => [
        one.occurred_at,
        one.operation,
        one.collection,
        one.outcome,
        one.took_ms === null ? null : Math.round(one.took_ms * 10) / 10,
        one.count,
      ]),
    ),
  ]
  return parts.join('\n\n')
}
