/** What is known of the nodes, and how many runs there are. */

import type { SqlExecutor } from '#engines/relational/port.ts'
import { type RunStatus, runStatuses } from './types.ts'

export interface NodeState {
  slug: string
  /** `down`: its probes have failed for a while. */
  status: 'up' | 'down' | 'unknown'
  /** When it last answered a probe. */
  lastSeen: Date | null
}

export async function readNodeStates(executor: SqlExecutor): Promise<NodeState[]> {
  const { rows } = await executor.query<NodeState>(
    'select slug, status, last_seen as "lastSeen" from platform.run_nodes order by slug',
  )
  return rows
}

/** Reports to AXON are left out. */
export async function countRuns(executor: SqlExecutor): Promise<Record<RunStatus, number>> {
  const { rows } = await executor.query<{ status: RunStatus; count: number }>(
    `select status, count(*) as count from platform.runs where trigger <> 'report' group by status`,
  )
  const counts = Object.fromEntries(runStatuses.map((status) => [status, 0])) as Record<RunStatus, number>
  for (const { status, count } of rows) counts[status] = count
  return counts
}
