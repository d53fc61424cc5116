/** What became of the runs and dispatches of schedules. */

import type { Relational } from '#engines/relational/port.ts'
import { noteFailure } from './fire.ts'

/**
 * Notes how runs and dispatches of schedules have ended: one that completed begins a new count of failures. Gives the schedules
 * that were paused for them, and how many failed.
 */
export async function settleFirings(relational: Relational) {
  const { rows } = await relational.query<{ number: number; id: string; status: string | null }>(ended)
  const paused: string[] = []
  let failed = 0
  for (const { number, id, status } of rows) {
    await relational.transaction(async (tx) => {
      await tx.query('select from platform.schedules where id = $1 for update', [id])
      const { rowCount } = await tx.query(
        `update platform.schedule_firings set status = $2 where number = $1 and status = 'started'`,
        [number, endOf(status)],
      )
      if (rowCount === 0) return
      if (endOf(status) === 'completed')
        await tx.query('update platform.schedules set failures = 0 where id = $1', [id])
      if (endOf(status) !== 'failed') return
      failed += 1
      if (await noteFailure(tx, id)) paused.push(id)
    })
  }
  return { paused, failed }
}

/** A run that was deleted with its session says nothing any more. */
function endOf(status: string | null): 'completed' | 'failed' | 'canceled' {
  if (status === 'failed') return 'failed'
  return status === 'completed' || status === 'partial' ? 'completed' : 'canceled'
}

const settledTogether = 100
const ended = `select f.number, f.schedule_id as id, coalesce(r.status, d.status) as status from platform.schedule_firings f
  left join platform.runs r on r.run_id = f.run_id left join platform.dispatches d on d.goal_id = f.goal_id
  where f.status = 'started' and (coalesce(r.status, d.status) is null
    or coalesce(r.status, d.status) in ('completed', 'partial', 'failed', 'canceled'))
  order by f.number limit ${settledTogether}`

/** Removes older firings. */
export async function pruneFirings(relational: Relational, days: number): Promise<void> {
  await relational.query(
    `delete from platform.schedule_firings where status <> 'started' and fired_at < clock_timestamp() - make_interval(days => $1::integer)`,
    [days],
  )
}
