/**
 * Ends runs: the first terminal state wins, and all that follows from it is written with it: the tree, the report to AXON
 * and the run that brings it, and the events of the fleet.
 */

import type { SqlExecutor } from '#engines/relational/port.ts'
import type { RunError, RunStatus, RunTrigger } from './types.ts'

/** The orchestrator: reports of all other agents go to it. */
export const axon = { slug: 'axon', codename: 'AXON' } as const

export interface RunEnd {
  runIds: string[]
  /** Which of them may be ended now. */
  when: EndCondition
  status: 'completed' | 'failed' | 'canceled'
  error?: RunError | null
  /** Secrets are masked, at most 2 kB. Without it the run keeps the one that it has. */
  summary?: string | null
  /** Who says how it ended. */
  reportedBy: 'node' | 'gateway'
  /** Publishes the end and wakes for the reports through the outbox, for callers that are no dispatcher. */
  announce?: boolean
}

type EndCondition =
  | { kind: 'queued' }
  /** By the dispatcher that runs it. */
  | { kind: 'held'; epoch: number }
  /** Its dispatcher has not renewed its lease. */
  | { kind: 'lost' }
  | { kind: 'open' }

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
  /** Of its tree. */
  lastEventId: number
  /** The run that brings AXON the report. */
  reportRunId: string | null
  /** Other runs wait at its node, or in its lane. */
  othersWait: boolean
}

/** The runs that were ended: none where another terminal state was first. */
export async function endRuns(executor: SqlExecutor, end: RunEnd): Promise<EndedRun[]> {
  if (end.runIds.length === 0) return []
  const { rows } = await executor.query<EndedRun>(
    'select * from platform.end_runs($1::text[], $2, $3, $4, $5::jsonb, $6, $7, $8)',
    [
      end.runIds,
      end.when.kind,
      end.when.kind === 'held' ? end.when.epoch : null,
      end.status,
      end.error ? JSON.stringify(end.error) : null,
      end.summary ?? null,
      end.reportedBy,
      end.announce ?? false,
    ],
  )
  return rows
}

/** The end of a run by the dispatcher that holds it. */
export interface HeldEnd extends Pick<RunEnd, 'status' | 'error' | 'summary' | 'reportedBy'> {
  runId: string
  epoch: number
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
      ends.map(({ summary }) => summary ?? null),
      ends.map(({ reportedBy }) => reportedBy),
    ],
  )
  const ended = new Map(rows.map((row) => [row.runId, row]))
  return ends.map(({ runId }) => ended.get(runId))
}
