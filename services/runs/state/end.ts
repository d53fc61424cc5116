/**
 * Ends runs: the first terminal state wins, and all that follows from it is written with it: the tree, the report to AXON
 * and the run that brings it, and the events of the fleet.
 */

import type { SqlExecutor } from '#engines/relational/port.ts'
import type { RunError, RunStatus, RunTrigger } from './types.ts'

/** The orchestrator: reports of all other agents go to it. */
export const axon = { slug: 'axon', codename: 'AXON' } as const

/** The end of runs that no dispatcher works on: the gateway, or a sweep, says how. */
interface RunEnd {
  runIds: string[]
  /** Which of them may be ended now; `lost`: their dispatcher has not renewed its lease. */
  when: 'queued' | 'lost' | 'open'
  status: 'completed' | 'failed' | 'canceled'
  error?: RunError
  /** Publishes the end through the outbox, for callers that are no dispatcher. */
  announce?: boolean
}

/** A run that this call ended. */
export interface EndedRun {
  runId: string
  rootRunId: string
  slug: string
  goalId: number | null
  trigger: RunTrigger
  attempt: number
  status: RunStatus
  /** No run of its tree is queued or running any more. */
  treeEnded: boolean
  /** Last event of its tree. */
  lastEventId: number
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
