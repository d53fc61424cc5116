/**
 * Ends runs: the first terminal state wins, and all that follows from it is written in the same statement: the tree, the
 * report to AXON and the run that brings it, and the events of the fleet.
 */

import type { SqlExecutor, SqlValue } from '#engines/relational/port.ts'
import { fleetEvents, runsCommands, runsEvents } from '#topics/catalog.ts'
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
  /** Publishes the end through the outbox, for callers that do not publish it themselves. */
  announce?: boolean
}

export type EndCondition =
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
  /** The run that brings AXON the report. */
  reportRunId: string | null
  /** Other runs wait at its node, or in its lane. */
  othersWait: boolean
}

/** The runs that were ended: none where another terminal state was first. */
export async function endRuns(executor: SqlExecutor, end: RunEnd): Promise<EndedRun[]> {
  if (end.runIds.length === 0) return []
  const { rows } = await executor.query<EndedRun>(endStatement(end), [
    end.runIds,
    end.status,
    end.error ? JSON.stringify(end.error) : null,
    end.summary ?? null,
    end.reportedBy,
    ...paramsOf(end.when),
  ])
  return rows
}

function conditionOf(when: EndCondition): string {
  switch (when.kind) {
    case 'queued':
      return `r.status = 'queued'`
    case 'held':
      return `r.status = 'running' and r.epoch = $6`
    case 'lost':
      return `r.status = 'running' and r.lease_until < clock_timestamp()`
    case 'open':
      return `r.status in ('queued', 'running')`
  }
}

function paramsOf(when: EndCondition): SqlValue[] {
  return when.kind === 'held' ? [when.epoch] : []
}

const time = (column: string) => `to_char(${column} at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')`
/** As `runIdOf('report', run id)`. */
const reportRunId = `'run_' || left(encode(sha256(convert_to('report' || chr(10) || run_id, 'UTF8')), 'hex'), 32)`

const reportBody = `jsonb_build_object('reportId', run_id, 'runId', run_id, 'goalId', goal_id, 'agent', agent,
  'userId', user_id, 'sessionId', session_id, 'trigger', trigger, 'parentRunId', parent_run_id, 'status', status,
  'error', error, 'summary', summary, 'joined', joined, 'skipped', skipped, 'attempt', attempt,
  'startedAt', ${time('started_at')}, 'endedAt', ${time('ended_at')}, 'reportedBy', $5::text)`

const fleetEvent = `jsonb_build_object('event', case status when 'completed' then 'task.completed' else 'task.failed' end,
  'agent', agent, 'task_id', run_id,
  'result', jsonb_build_object('status', status, 'summary', coalesce(error->>'message', summary, ''))::text,
  'ts', floor(extract(epoch from ended_at))::bigint)`

const endEvent = `jsonb_build_object('run_id', e.run_id, 'root_run_id', e.root_run_id, 'goal_id', e.goal_id,
  'attempt', e.attempt, 'seq', null, 'goal_seq', null, 'event', null, 'status', e.status,
  'tree_ended', trees.open_runs = 0, 'goal_status', null)`

const outboxColumns = 'platform.outbox (topic, key, event_id, value, headers)'
const headers = `jsonb_strip_nulls(jsonb_build_object('agent', agent, 'request-id', request_id, 'traceparent', traceparent))`

function endStatement({ runIds, when, announce }: RunEnd): string {
  // Several are locked in one order, so that nobody waits for each other.
  const which =
    runIds.length === 1
      ? 'r.run_id = any($1::text[])'
      : 'r.run_id in (select run_id from platform.runs where run_id = any($1::text[]) order by id for no key update)'
  return `
with ended as (
  update platform.runs r set status = $2, error = $3::jsonb, summary = coalesce($4, r.summary),
    ended_at = greatest(clock_timestamp(), r.created_at, r.started_at), holder = null, lease_until = null
  where ${which} and ${conditionOf(when)} returning *),
trees as (
  update platform.run_trees t set open_runs = t.open_runs - n.ended
  from (select root_run_id, count(*)::integer as ended from ended group by root_run_id) n
  where t.root_run_id = n.root_run_id returning t.root_run_id, t.open_runs),
delivered as (
  update platform.run_reports p set state = case ended.status when 'completed' then 'delivered' else 'undelivered' end
  from ended where ended.trigger = 'report' and p.report_run_id = ended.run_id),
reports as (
  insert into platform.run_reports (run_id, report_run_id, body)
  select run_id, ${reportRunId}, ${reportBody} from ended where slug <> '${axon.slug}' and trigger <> 'report'
  on conflict do nothing returning run_id, report_run_id),
report_runs as (
  insert into platform.runs (run_id, root_run_id, slug, agent, user_id, session_id, status, trigger)
  select p.report_run_id, p.report_run_id, '${axon.slug}', '${axon.codename}', e.user_id, 'reports-' || e.session_id,
    'queued', 'report'
  from reports p join ended e on e.run_id = p.run_id returning run_id),
report_trees as (insert into platform.run_trees (root_run_id) select run_id from report_runs),
wakes as (
  insert into ${outboxColumns}
  select '${runsCommands.name}', '${axon.slug}', gen_random_uuid()::text,
    jsonb_build_object('command', 'start', 'run_id', run_id, 'slug', '${axon.slug}'), '{}' from report_runs),
fleet as (
  insert into ${outboxColumns}
  select '${fleetEvents.name}', agent, gen_random_uuid()::text, ${fleetEvent}, ${headers}
  from ended where trigger <> 'report' and status <> 'canceled')
${announce ? announced : ''}
select e.run_id as "runId", e.root_run_id as "rootRunId", e.slug, e.goal_id as "goalId", e.trigger, e.attempt, e.status,
  coalesce(trees.open_runs = 0, true) as "treeEnded", reports.report_run_id as "reportRunId",
  exists (select from platform.runs q where q.slug = e.slug and q.status = 'queued') as "othersWait"
from ended e left join trees on trees.root_run_id = e.root_run_id left join reports on reports.run_id = e.run_id`
}

const announced = `, announced as (
  insert into ${outboxColumns}
  select '${runsEvents.name}', e.slug, gen_random_uuid()::text, ${endEvent}, '{}'
  from ended e join trees on trees.root_run_id = e.root_run_id)`
