/** One agent in detail: who it is, its sessions, its last operations, what it used of its limits. */

import { Type } from 'typebox'
import { showAgent } from '#services/access/agents/agents.ts'
import {
  createRecentOperations,
  type RecentOperation,
} from '#services/access/audit/trail/recent-operations.ts'
import { readSessions, type Session } from '#services/access/gateway-keys/sessions.ts'
import { readUsedToday } from '#services/access/limits/shared-rows.ts'
import { limitsOf } from '#services/access/limits/tiers.ts'
import { type AgentView, viewOf } from './agents.ts'
import { defineOperation } from './operation.ts'

export interface ShownAgent extends AgentView {
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

export const showAgentOperation = defineOperation({
  name: 'agents show',
  needs: [],
  args: Type.Object({ agentId: Type.String() }),
  async run({ platform }, { agentId }): Promise<ShownAgent> {
    const { relational } = platform.engines
    const agent = await showAgent(relational, agentId)
    const [sessions, operations, used] = await Promise.all([
      readSessions(relational, agent.uid),
      createRecentOperations(platform).of(agent),
      readUsedToday(relational, agent.uid),
    ])
    const { day, rate, slots } = limitsOf(agent)
    return {
      ...viewOf(agent),
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
