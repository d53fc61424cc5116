/** Writes the row of a new run, with its tree and the record that wakes the dispatchers, in one statement. */

import { createHash, randomBytes } from 'node:crypto'
import type { Relational, SqlExecutor, SqlTransaction } from '#engines/relational/port.ts'
import { headerNames } from '#runtime/messages.ts'
import { runsCommands } from '#topics/catalog.ts'
import { runColumns } from './columns.ts'
import { runsChannel } from './notice.ts'
import type { Content, Run, RunTrigger } from './types.ts'

/** Runs of callers that wait in one lane. */
const waitingMax = 10
/** With those that the platform made. */
const laneMax = 200

export interface NewRunRow {
  runId: string
  slug: string
  agent: string
  userId: string
  sessionId: string
  trigger: RunTrigger
  callerUid: string
  requestId: string | null
  traceparent?: string | null
  message: Content | null
  messageAuthor?: string
  streaming: boolean
  stateDelta?: Record<string, unknown>
  customMetadata?: Record<string, unknown>
  parentRunId?: string | null
  rootRunId?: string
  goalId?: number | null
  depth?: number
  deadline?: Date | null
}

export type Inserted =
  | { run: Run }
  /** Nothing was written: the lane has `open` runs, of which `active` is the first, or the run exists already. */
  | { run: null; active: string | null; waiting: number }

/** A new random id. */
export function newRunId(): string {
  return `run_${randomBytes(16).toString('hex')}`
}

/** An id that depends on nothing but its parts: what is written twice under it is one run. */
export function runIdOf(...parts: string[]): string {
  return `run_${createHash('sha256').update(parts.join('\n')).digest('hex').slice(0, 32)}`
}

/** Runs `work` while no other one accepts a run into these lanes. The embedded engine has one session: there a single statement needs no lock. */
export function inLanes<T>(
  relational: Relational,
  lanes: Pick<NewRunRow, 'slug' | 'userId' | 'sessionId'>[],
  work: (executor: SqlExecutor) => Promise<T>,
): Promise<T> {
  if (relational.driver === 'embedded') return work(relational)
  return relational.transaction(async (tx) => {
    await lockLanes(tx, lanes)
    return work(tx)
  })
}

/** Always in the same order, so that nobody waits for each other. */
export async function lockLanes(
  tx: SqlTransaction,
  lanes: Pick<NewRunRow, 'slug' | 'userId' | 'sessionId'>[],
): Promise<void> {
  const names = lanes.map(({ slug, userId, sessionId }) => JSON.stringify([slug, userId, sessionId]))
  await tx.query(
    `select pg_advisory_xact_lock(key) from (
       select distinct hashtextextended(name, 0) as key from unnest($1::text[]) as name order by 1) as keys`,
    [names],
  )
}

/**
 * Inserts the run, unless its lane is full, or busy and `reject` is set. Runs of mentions and of the platform itself are
 * refused only by a lane that is far too long. `notify` wakes the dispatchers with the commit: only where no other commit
 * waits for it.
 */
export async function insertRun(
  executor: SqlExecutor,
  run: NewRunRow,
  { reject = false, notify = false }: { reject?: boolean; notify?: boolean } = {},
): Promise<Inserted> {
  const { rows } = await executor.query<
    Run & { made: string | null; active: string | null; waiting: number }
  >(statement, [
    run.runId,
    run.slug,
    run.agent,
    run.userId,
    run.sessionId,
    run.trigger,
    run.callerUid,
    run.requestId,
    run.traceparent ?? null,
    json(run.message),
    run.messageAuthor ?? null,
    run.streaming,
    json(run.stateDelta),
    json(run.customMetadata),
    run.parentRunId ?? null,
    run.rootRunId ?? run.runId,
    run.goalId ?? null,
    run.depth ?? 0,
    run.deadline ?? null,
    reject,
    run.trigger === 'api' || run.trigger === 'dispatch',
    JSON.stringify(headersOf(run)),
    notify,
  ])
  const { made, active, waiting, ...row } = rows[0]!
  return made === null ? { run: null, active, waiting } : { run: row as Run }
}

const statement = `
with lane as (
  select count(*) filter (where status = 'queued' and trigger in ('api', 'dispatch')) as waiting, count(*) as open,
    (array_agg(run_id order by status = 'running' desc, id))[1] as active
  from platform.runs
  where status in ('queued', 'running')
    and lane = md5($2::text || '/' || length($4::text) || '/' || $4::text || '/' || $5::text)::uuid),
made as (
  insert into platform.runs (run_id, slug, agent, user_id, session_id, status, trigger, caller_uid, request_id, traceparent,
    message, message_author, streaming, state_delta, custom_metadata, parent_run_id, root_run_id, goal_id, depth, deadline)
  select $1, $2, $3, $4, $5, 'queued', $6, $7, $8, $9, $10::json, $11, $12::boolean, $13::json, $14::json, $15, $16,
    $17::bigint, $18::integer, $19::timestamptz
  from lane
  where case when $21::boolean then waiting < ${waitingMax} and not ($20::boolean and open > 0) else open < ${laneMax} end
  on conflict (run_id) do nothing returning *),
tree as (
  insert into platform.run_trees (root_run_id, goal_id) select run_id, goal_id from made where root_run_id = run_id),
sent as (
  insert into platform.outbox (topic, key, event_id, value, headers)
  select '${runsCommands.name}', slug, gen_random_uuid()::text,
    jsonb_build_object('command', 'start', 'run_id', run_id, 'slug', slug), $22::jsonb from made)
select r.run_id as made, lane.active, lane.waiting, ${runColumns('0')}
from lane left join made r on true
left join lateral (
  select pg_notify('${runsChannel}', r.slug), pg_notify('flotilla_outbox', '') where $23::boolean and r.run_id is not null
) as noticed on true`

function headersOf(run: NewRunRow): Record<string, string> {
  return {
    [headerNames.agent]: run.agent,
    ...(run.requestId ? { [headerNames.requestId]: run.requestId } : {}),
    ...(run.traceparent ? { [headerNames.traceparent]: run.traceparent } : {}),
  }
}

function json(value: object | null | undefined): string | null {
  return value ? JSON.stringify(value) : null
}
