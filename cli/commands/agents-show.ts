/** `flotilla agents show`: who an agent is, its sessions, its last operations, what it used of its limits. */

import type { Command as Program } from 'commander'
import { type ShownAgent, showAgentOperation } from '#operations/agents-show.ts'
import { type Cli, describe } from '../cli.ts'
import { fields, table } from '../output.ts'

export function registerShow(agents: Program, cli: Cli): void {
  const show = agents
    .command('show')
    .argument('<agent-id>')
    .description('one agent: sessions, last operations, use of its limits')
  describe(show, 'flotilla agents show scout').action(
    async (agentId: string, { json }: { json?: boolean }) => {
      await cli.run(showAgentOperation, { agentId }, { json, render })
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
