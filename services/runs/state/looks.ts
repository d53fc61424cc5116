/** Short looks at how far many trees, runs or dispatches have come, in one statement each. */

import type { SqlExecutor } from '#engines/relational/port.ts'

export interface Look {
  ended: boolean
  /** Of the tree, or of the dispatch. */
  lastEventId: number
}

/** By root run id. One that is not there has ended. */
export function lookAtTrees(executor: SqlExecutor, rootRunIds: string[]): Promise<Map<string, Look>> {
  return look(
    executor,
    `select root_run_id as key, open_runs = 0 as ended, last_event_id as last
     from platform.run_trees where root_run_id = any($1::text[])`,
    rootRunIds,
  )
}

/** By run id. One that is not there has ended. */
export function lookAtRuns(executor: SqlExecutor, runIds: string[]): Promise<Map<string, Look>> {
  return look(
    executor,
    `select r.run_id as key, r.status not in ('queued', 'running') as ended, t.last_event_id as last
     from platform.runs r join platform.run_trees t on t.root_run_id = r.root_run_id
     where r.run_id = any($1::text[])`,
    runIds,
  )
}

/** By goal id. One that is not there has ended. */
export function lookAtDispatches(executor: SqlExecutor, goalIds: number[]): Promise<Map<number, Look>> {
  return look(
    executor,
    `select goal_id as key, status <> 'running' as ended, last_event_id as last
     from platform.dispatches where goal_id = any($1::bigint[])`,
    goalIds,
  )
}

async function look<K extends string | number>(
  executor: SqlExecutor,
  statement: string,
  keys: K[],
): Promise<Map<K, Look>> {
  const found = new Map(keys.map((key): [K, Look] => [key, { ended: true, lastEventId: 0 }]))
  if (keys.length === 0) return found
  const { rows } = await executor.query<{ key: K; ended: boolean; last: number }>(statement, [keys])
  for (const { key, ended, last } of rows) found.set(key, { ended, lastEventId: last })
  return found
}
