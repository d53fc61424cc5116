/** Finds runs that nobody works on: of dispatchers that are gone, of nodes that are away, and those past their time. */

import type { SqlExecutor, SqlValue } from '#engines/relational/port.ts'
import { turnsBack } from './claims.ts'
import { axon, type EndedRun, endRuns } from './end.ts'
import { type ClaimedRun, claimedTexts, type RunError } from './types.ts'

const batchMax = 500
/** Attempts that may be lost, at the beginning and after each answer. */
export const attemptsMax = 2

/** What there is to do at all: one cheap look. */
export interface Overview {
  /** Slugs for which runs wait. */
  queued: string[] | null
  running: boolean
  asking: boolean
  dispatching: boolean
  /** When the database looked, by its clock. */
  at: Date
}

export async function lookAtRuns(executor: SqlExecutor): Promise<Overview> {
  const { rows } = await executor.query<Overview>(
    `select clock_timestamp() as at, (select array_agg(distinct slug) from platform.runs where status = 'queued') as queued,
       exists (select from platform.runs where status = 'running') as running,
       exists (select from platform.runs where status = 'input_required') as asking,
       exists (select from platform.dispatches where status = 'running') as dispatching`,
  )
  return rows[0]!
}

/** Runs whose dispatcher is gone and that had shown nothing wait again, with their turns. Gives their slugs. */
export async function queueLostRuns(executor: SqlExecutor): Promise<string[]> {
  const { rows } = await executor.query<{ slug: string }>(
    `with lost as (
     update platform.runs set status = 'queued', epoch = epoch + 1, holder = null, lease_until = null, head_at = null,
       not_before = null
     where run_id in (
       select run_id from platform.runs where status = 'running' and lease_until < clock_timestamp()
         and not shown and attempt - asked_attempt < ${attemptsMax} and cancel_requested_at is null
       order by id limit ${batchMax} for update skip locked)
     returning slug, caller_uid),
     ${turnsBack('lost')}
     select slug from lost`,
  )
  return [...new Set(rows.map((row) => row.slug))]
}

/** The others of gone dispatchers end. */
export async function endLostRuns(executor: SqlExecutor): Promise<EndedRun[]> {
  const canceled = await idsOf(
    executor,
    `status = 'running' and cancel_requested_at is not null
       and (lease_until < clock_timestamp() or cancel_requested_at < clock_timestamp() - interval '10 seconds')`,
  )
  const ended = await endRuns(executor, { runIds: canceled, when: 'open', status: 'canceled' })
  const lost = await idsOf(
    executor,
    `status = 'running' and lease_until < clock_timestamp() and (shown or attempt - asked_attempt >= ${attemptsMax})`,
  )
  return [
    ...ended,
    ...(await endRuns(executor, { runIds: lost, when: 'lost', status: 'failed', error: nodeLost })),
  ]
}

const retryable = (code: RunError['code'], message: string): RunError => ({ code, message, retryable: true })

export const nodeLost = retryable(
  'node_lost',
  'The node was lost while the run was going on; what it had done may have had effects.',
)
export const nodeUnavailable = retryable('node_unavailable', 'No node took the run in time.')
const inputExpired: RunError = {
  code: 'input_expired',
  message: 'Nobody answered the question of the run in time.',
  retryable: false,
}
export const runTimeout = retryable('run_timeout', 'The run took longer than it may.')

/** At the start of a dispatcher: while none was there, no node could take a run. */
export async function restartWaiting(executor: SqlExecutor): Promise<void> {
  await executor.query(
    `update platform.runs set head_at = clock_timestamp() where status = 'queued' and head_at is not null`,
  )
}

/**
 * Notes since when runs could have begun: those at the heads of their lanes whose node is away, or whose turn has come and for
 * whom there is a place. `slots`: what each node takes, null where it is not known; `room`: what this dispatcher can take on.
 */
export async function noteTurns(
  executor: SqlExecutor,
  nodes: readonly { slug: string; slots: number | null }[],
  room: number,
): Promise<void> {
  await executor.query('select platform.note_turns($1::text[], $2::integer[], $3)', [
    nodes.map(({ slug }) => slug),
    nodes.map(({ slots }) => slots),
    room,
  ])
}

/**
 * Ends runs that could have begun before `since` (see noteTurns). Reports do not wait for each other: while AXON is away,
 * each has its own time.
 */
export async function endUnstartedRuns(
  executor: SqlExecutor,
  { since, axonIsLive }: { since: Date; axonIsLive: boolean },
): Promise<EndedRun[]> {
  const runIds = await idsOf(
    executor,
    `status = 'queued' and (head_at < $1::timestamptz
       or (not $2::boolean and slug = '${axon.slug}' and trigger = 'report' and created_at < $1::timestamptz))`,
    [since, axonIsLive],
  )
  return endRuns(executor, { runIds, when: 'queued', status: 'failed', error: nodeUnavailable })
}

/** Runs of callers that no node took since before `since`, and whose messages have brought in nobody yet; with the texts of these alone. */
export async function unstartedRuns(executor: SqlExecutor, since: Date): Promise<ClaimedRun[]> {
  const { rows } = await executor.query<ClaimedRun>(
    `select ${claimedTexts} from platform.runs r
     where r.status = 'queued' and r.trigger in ('api', 'schedule') and r.joined = '[]' and r.skipped = '[]'
       and r.head_at < $1::timestamptz
     order by r.id limit ${batchMax}`,
    [since],
  )
  return rows
}

/** Ends runs past the deadline of their dispatch or synthesis; `graceMs` is for the dispatcher that runs them. */
export async function endOverdueRuns(executor: SqlExecutor, graceMs: number): Promise<EndedRun[]> {
  const late = `deadline < clock_timestamp() - case status when 'running' then interval '${graceMs} milliseconds' else interval '0' end`
  const runIds = await idsOf(executor, `status in ('queued', 'running', 'input_required') and ${late}`)
  return endRuns(executor, { runIds, when: 'open', status: 'failed', error: runTimeout })
}

/** Ends runs whose questions nobody answered. */
export async function endExpiredRuns(executor: SqlExecutor): Promise<EndedRun[]> {
  const runIds = await idsOf(executor, `status = 'input_required' and expires_at < clock_timestamp()`)
  return endRuns(executor, { runIds, when: 'expired', status: 'failed', error: inputExpired })
}

async function idsOf(executor: SqlExecutor, condition: string, params: SqlValue[] = []): Promise<string[]> {
  const { rows } = await executor.query<{ run_id: string }>(
    // Whoever holds a row just now changes it, or was paused: the next sweep sees.
    `select run_id from platform.runs where ${condition} order by id limit ${batchMax} for no key update skip locked`,
    params,
  )
  return rows.map((row) => row.run_id)
}

/** Deletes runs that ended so many days ago, with all that belongs to them. Gives the number of trees. */
export async function pruneRuns(executor: SqlExecutor, days: number): Promise<number> {
  const { rows } = await executor.query<{ trees: number }>(
    // Looks at the oldest rows only; runs end roughly in order.
    `with old as materialized (
       select r.root_run_id from (select * from platform.runs order by id limit ${batchMax}) r
       join platform.run_trees t on t.root_run_id = r.root_run_id
       where r.parent_run_id is null and t.open_runs = 0
         and r.ended_at < clock_timestamp() - make_interval(days => $1::integer)),
     events as (delete from platform.run_events where root_run_id in (select root_run_id from old)),
     trees as (delete from platform.run_trees where root_run_id in (select root_run_id from old)),
     gone as (
       delete from platform.runs where run_id in (select root_run_id from old)
         or parent_run_id is not null and root_run_id in (select root_run_id from old) returning run_id),
     -- Who was not served for a day is next in any case.
     turns as (delete from platform.run_turns where served_at < clock_timestamp() - interval '1 day'),
     reports as (delete from platform.run_reports where run_id in (select run_id from gone)),
     dispatches as (
       delete from platform.dispatches where ended_at < clock_timestamp() - make_interval(days => $1::integer))
     select count(*) as trees from old`,
    [days],
  )
  return rows[0]!.trees
}
