/** Cancels runs: a pending run ends at once, a running one is asked to end, with all that joined it. */

import type { Relational, SqlTransaction } from '#engines/relational/port.ts'
import { AppError } from '#lib/errors.ts'
import { runsControl } from '#topics/catalog.ts'
import { type EndedRun, endRuns } from './end.ts'
import { readRun } from './read.ts'
import type { Run } from './types.ts'
import { cancelNotice, wakeDispatchers } from './wake.ts'

/** A tree is no deeper; each round marks what joined since the one before. */
const roundsMax = 20

/** Request id and traceparent of the request that cancels. */
export type CancelHeaders = Record<string, string>

/**
 * Queued runs of the tree below are canceled when it resolves; running ones have `cancelRequestedAt`, and end when their
 * dispatcher reads it. A run that has ended stays as it is. Throws AppError `run_not_found`.
 */
export async function cancelRun(
  relational: Relational,
  runId: string,
  headers: CancelHeaders = {},
): Promise<Run> {
  const { run, ended } = await relational.transaction(async (tx) => {
    const done = await cancelWithin(
      tx,
      `with recursive below as (
         select run_id, root_run_id from platform.runs where run_id = $1
         union select r.run_id, r.root_run_id from platform.runs r join below b
           on r.root_run_id = b.root_run_id and r.parent_run_id = b.run_id)
       select run_id from below`,
      runId,
      headers,
    )
    const found = await readRun(tx, runId)
    if (!found) throw new AppError('run_not_found', `There is no run ${runId.slice(0, 64).toWellFormed()}.`)
    return { run: found, ended: done }
  })
  if (ended.length > 0 || run.cancelRequestedAt) wakeDispatchers(relational, cancelNotice)
  return run
}

/** `which` is a query of run ids with the parameter $1. Returns the runs that ended at once. */
export async function cancelWithin(
  tx: SqlTransaction,
  which: string,
  param: string | number,
  headers: CancelHeaders,
): Promise<EndedRun[]> {
  const running: { run_id: string; slug: string }[] = []
  const queued: string[] = []
  for (let round = 0; round < roundsMax; round++) {
    // Runs that are marked let no one join any more, so a round that finds none is the last.
    const { rows } = await tx.query<{ run_id: string; slug: string; status: string }>(
      `with open as materialized (
         select run_id from platform.runs
         where run_id in (${which}) and status in ('queued', 'running') and cancel_requested_at is null
         order by id for no key update)
       update platform.runs r set cancel_requested_at = clock_timestamp() from open where r.run_id = open.run_id
       returning r.run_id, r.slug, r.status`,
      [param],
    )
    if (rows.length === 0) break
    for (const row of rows) row.status === 'queued' ? queued.push(row.run_id) : running.push(row)
  }
  await sendCancels(tx, running, headers)
  return queued.length === 0
    ? []
    : endRuns(tx, {
        runIds: queued,
        when: 'queued',
        status: 'canceled',
        announce: true,
      })
}

async function sendCancels(
  tx: SqlTransaction,
  runs: { run_id: string; slug: string }[],
  headers: CancelHeaders,
): Promise<void> {
  if (runs.length === 0) return
  await tx.query(
    `insert into platform.outbox (topic, key, event_id, value, headers)
     select '${runsControl.name}', slug, gen_random_uuid()::text,
       jsonb_build_object('command', 'cancel', 'run_id', run_id, 'slug', slug), $3::jsonb
     from unnest($1::text[], $2::text[]) as canceled (run_id, slug)`,
    [runs.map((run) => run.run_id), runs.map((run) => run.slug), JSON.stringify(headers)],
  )
}
