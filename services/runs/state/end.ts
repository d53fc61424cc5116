/**
 * Ends runs: the first terminal state wins, and all that follows from it is written with it: the tree, the report to AXON
 * and the run that brings it, and the events of the fleet. A cancel ends pending runs at once, and asks running ones to end, with
 * all that joined them.
 */

import type { Relational, SqlExecutor, SqlTransaction } from '#engines/relational/port.ts'
import { AppError } from '#lib/errors.ts'
import { runsControl } from '#topics/catalog.ts'
import { cancelNotice, wakeDispatchers } from './claims.ts'
import { readRun } from './read.ts'
import type { Run, RunError } from './types.ts'

/** The orchestrator: reports of all other agents go to it. */
export const axon = { slug: 'axon', codename: 'AXON' } as const

/** The end of runs that no dispatcher works on: the gateway, or a sweep, says how. */
interface RunEnd {
  runIds: string[]
  /** Which of them may be ended now; `unheld`: queued or asking; `lost`: their dispatcher has not renewed its lease. */
  when: 'queued' | 'unheld' | 'expired' | 'lost' | 'open'
  status: 'completed' | 'failed' | 'canceled'
  error?: RunError
  /** Publishes the end through the outbox, for callers that are no dispatcher. */
  announce?: boolean
}

/** A run that this call ended. */
export interface EndedRun
  extends Pick<
    Run,
    'runId' | 'rootRunId' | 'slug' | 'goalId' | 'trigger' | 'attempt' | 'status' | 'lastEventId'
  > {
  /** All runs of its tree have ended. */
  treeEnded: boolean
  /** The run that brings AXON the report. */
  reportRunId: string | null
  /** Other runs wait at its node, or in its lane. */
  othersWait: boolean
}

/** The runs that were ended: none where another terminal state was first. */
export async function endRuns(executor: SqlExecutor, end: RunEnd): Promise<EndedRun[]> {
  const { runIds, when, status, error, announce = false } = end
  if (runIds.length === 0) return []
  const { rows } = await executor.query<EndedRun>(
    `select * from platform.end_runs($1::text[], $2, null, $3, $4::jsonb, null, 'gateway', $5)`,
    [runIds, when, status, error ? JSON.stringify(error) : null, announce],
  )
  return rows
}

/** The end of a run by the dispatcher that holds it. */
export interface HeldEnd extends Pick<RunEnd, 'status'> {
  runId: string
  epoch: number
  error: RunError | null
  /** Secrets are masked, at most 2 kB. Without it the run keeps the one that it has. */
  summary: string | null
  /** Who says how it ended. */
  reportedBy: 'node' | 'gateway'
}

/** As `endRuns` for each, in one statement: undefined where another terminal state was first. */
export async function endHeldRuns(executor: SqlExecutor, ends: HeldEnd[]): Promise<(EndedRun | undefined)[]> {
  const { rows } = await executor.query<EndedRun>(
    `select e.* from unnest($1::text[], $2::bigint[], $3::text[], $4::text[], $5::text[], $6::text[])
       as g (run_id, epoch, status, error, summary, reporter)
     cross join lateral platform.end_runs(
       array[g.run_id], 'held', g.epoch, g.status, g.error::jsonb, g.summary, g.reporter, false) e`,
    [
      ends.map(({ runId }) => runId),
      ends.map(({ epoch }) => epoch),
      ends.map(({ status }) => status),
      ends.map(({ error }) => (error ? JSON.stringify(error) : null)),
      ends.map(({ summary }) => summary),
      ends.map(({ reportedBy }) => reportedBy),
    ],
  )
  const ended = new Map(rows.map((row) => [row.runId, row]))
  return ends.map(({ runId }) => ended.get(runId))
}

/** A tree is no deeper; each round marks what joined since the one before. */
const roundsMax = 20

/** The run $1 and all that joined it. */
export const runsBelow = `with recursive below as (
    select run_id, root_run_id from platform.runs where run_id = $1
    union select r.run_id, r.root_run_id from platform.runs r join below b
      on r.root_run_id = b.root_run_id and r.parent_run_id = b.run_id)
  select run_id from below`

/**
 * Queued runs of the tree below, and those that ask, are canceled when it resolves; running ones have `cancelRequestedAt`, and end when their
 * dispatcher reads it. A run that has ended stays as it is. `headers` are the request id and traceparent of who cancels. Throws AppError `run_not_found`.
 */
export async function cancelRun(
  relational: Relational,
  runId: string,
  headers: Record<string, string> = {},
): Promise<Run> {
  const { run, ended } = await relational.transaction(async (tx) => {
    const done = await cancelWithin(tx, runsBelow, runId, headers)
    const found = await readRun(tx, runId)
    if (!found) throw new AppError('run_not_found', `There is no run ${runId.slice(0, 64).toWellFormed()}.`)
    return { run: found, ended: done }
  })
  if (ended.length > 0 || run.cancelRequestedAt) wakeDispatchers(relational, cancelNotice)
  // The lane of a run that asked is free.
  for (const slug of new Set(ended.filter(({ othersWait }) => othersWait).map((one) => one.slug))) {
    wakeDispatchers(relational, slug)
  }
  return run
}

/** `which` is a query of run ids with the parameter $1. Returns the runs that ended at once. */
export async function cancelWithin(
  tx: SqlTransaction,
  which: string,
  param: string | number,
  headers: Record<string, string>,
  reason: 'interrupted' | null = null,
): Promise<EndedRun[]> {
  const running: { run_id: string; slug: string }[] = []
  const unheld: string[] = []
  for (let round = 0; round < roundsMax; round++) {
    // Runs that are marked let no one join any more, so a round that finds none is the last.
    const { rows } = await tx.query<{ run_id: string; slug: string; status: string }>(
      `with open as materialized (
         select run_id from platform.runs
         where run_id in (${which}) and status in ('queued', 'running', 'input_required') and cancel_requested_at is null
         order by id for no key update)
       update platform.runs r set cancel_requested_at = clock_timestamp(), cancel_reason = $2 from open where r.run_id = open.run_id
       returning r.run_id, r.slug, r.status`,
      [param, reason],
    )
    if (rows.length === 0) break
    for (const row of rows) row.status === 'running' ? running.push(row) : unheld.push(row.run_id)
  }
  await sendCancels(tx, running, headers)
  return unheld.length === 0
    ? []
    : endRuns(tx, {
        runIds: unheld,
        when: 'unheld',
        status: 'canceled',
        announce: true,
      })
}

async function sendCancels(
  tx: SqlTransaction,
  runs: { run_id: string; slug: string }[],
  headers: Record<string, string>,
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
