/** Removes the runs and dispatches that callers started, with the runs that joined, the conclusions and the reports. */

import type { Relational, SqlTransaction } from '#engines/relational/port.ts'
import { lookUntil } from '#lib/backoff.ts'
import { AppError } from '#lib/errors.ts'
import { cancelNotice, wakeDispatchers } from './claims.ts'
import { cancelDispatch } from './dispatches.ts'
import { cancelWithin } from './end.ts'

/** Canceled runs end within this time, and the reports about them. */
const endedWithinMs = 30_000
const pollMs = 100

/** Runs of the caller $1, without the reports about them. */
const runsOf = `select run_id from platform.runs where root_run_id in (
    select root_run_id from platform.runs where caller_uid = $1 and root_run_id = run_id)
  or goal_id in (select goal_id from platform.dispatches where caller_uid = $1)`
const withReports = `${runsOf} union select report_run_id from platform.run_reports where run_id in (${runsOf})`

/** Cancels open runs of the caller and waits for their end. Throws AppError `conflict` when they do not end in time. */
export async function endRunsOf(relational: Relational, uid: string, signal: AbortSignal): Promise<void> {
  const open = async (sql: string) => (await relational.query<{ id: string | number }>(sql, [uid])).rows
  let left = 0
  const look = async () => {
    const dispatches = await open(
      "select goal_id as id from platform.dispatches where caller_uid = $1 and status = 'running'",
    )
    for (const { id } of dispatches) await cancelDispatch(relational, Number(id))
    // A run that was canceled is reported, too: it is looked for again.
    const runs = await open(
      `select run_id as id from platform.runs where run_id in (${withReports}) and status in ('queued', 'running', 'input_required')`,
    )
    left = runs.length
    if (dispatches.length + runs.length === 0) return true
    await relational.transaction((tx) => cancelWithin(tx, withReports, uid, {}))
    wakeDispatchers(relational, cancelNotice)
    return undefined
  }
  const late = () => {
    throw new AppError('conflict', `${left} runs do not end: \`flotilla runs list\` shows them.`)
  }
  await lookUntil(look, { everyMs: pollMs, withinMs: endedWithinMs, signal, late })
}

/** Call `endRunsOf` before. Goals of dispatches stay: they belong to the hub. Counts no reports. */
export async function removeRunsOf(
  tx: SqlTransaction,
  uid: string,
): Promise<{ runs: number; dispatches: number }> {
  const { rows } = await tx.query<{ runs: number; dispatches: number }>(
    `with own as materialized (${runsOf}), every as materialized (${withReports}),
     events as (delete from platform.run_events where root_run_id in (select run_id from every)),
     trees as (delete from platform.run_trees where root_run_id in (select run_id from every)),
     reports as (delete from platform.run_reports where run_id in (select run_id from own)),
     gone as (delete from platform.runs where run_id in (select run_id from every)),
     dispatches as (delete from platform.dispatches where caller_uid = $1 returning goal_id)
     select (select count(*) from own)::integer as runs, (select count(*) from dispatches)::integer as dispatches`,
    [uid],
  )
  return rows[0]!
}
