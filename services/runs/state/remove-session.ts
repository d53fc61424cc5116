/** Removes a session: nothing of it may be at work, and the reports about its runs go with it. */

import type { Relational, SqlExecutor } from '#engines/relational/port.ts'
import { lookUntil } from '#lib/backoff.ts'
import { AppError } from '#lib/errors.ts'
import { cancelNotice, wakeDispatchers } from './claims.ts'
import { cancelWithin } from './end.ts'
import type { SeenBy, SessionKey } from './sessions.ts'

/** Trees that one transaction removes. */
const treesAtOnce = 500
/** A report that is at work ends within this time once it was canceled. */
const reportsWithinMs = 12_000
const pollMs = 100

export interface SessionState {
  /** A run that has not ended. */
  active: string | null
  /** Some of its runs are not seen by the caller. */
  isShared: boolean
  /** The agents that have it at their nodes. */
  agents: { slug: string; agent: string }[]
  /** Whether AXON was given reports about its runs. */
  isReported: boolean
  /** Its newest run. */
  lastId: number
}

export async function readSessionState(
  executor: SqlExecutor,
  { userId, sessionId, uid }: SessionKey,
  own: SeenBy,
): Promise<SessionState> {
  const { rows } = await executor.query<SessionState>(
    `with every as materialized (
       select run_id, slug, agent, id, ended_at, goal_id, caller_uid, user_uid from platform.session_runs($1, $2, $3))
     select
       coalesce((select run_id from every where ended_at is null order by id limit 1),
         (select 'dispatch_' || d.goal_id from platform.dispatches d
          where d.status = 'running' and d.goal_id in (select goal_id from every) limit 1)) as active,
       exists (select from every where $4::text is not null and caller_uid <> $4 and user_uid is distinct from $4)
         as "isShared",
       coalesce((select jsonb_agg(distinct jsonb_build_object('slug', slug, 'agent', agent)) from every), '[]') as agents,
       exists (select from platform.run_reports where run_id in (select run_id from every)) as "isReported",
       coalesce((select max(id) from every), 0) as "lastId"`,
    [userId, sessionId, uid, own],
  )
  return rows[0]!
}

/** The session is given as JSON. */
const reportsAbout = `select report_run_id as run_id from platform.run_reports where run_id in (
  select run_id from platform.session_runs($1::json->>0, $1::json->>1, $1::json->>2))`

/** Cancels reports about its runs that AXON has not answered, and waits for their end. Throws AppError `session_busy`. */
export async function endReports(
  relational: Relational,
  { userId, sessionId, uid }: SessionKey,
  signal: AbortSignal,
): Promise<void> {
  const session = JSON.stringify([userId, sessionId, uid])
  await lookUntil(
    async () => {
      const { rows } = await relational.query(
        `select from platform.runs where run_id in (${reportsAbout}) and ended_at is null limit 1`,
        [session],
      )
      if (rows.length === 0) return true
      await relational.transaction((tx) => cancelWithin(tx, reportsAbout, session, {}))
      wakeDispatchers(relational, cancelNotice)
      return undefined
    },
    {
      everyMs: pollMs,
      withinMs: reportsWithinMs,
      signal,
      late: () => {
        throw new AppError('session_busy', 'A report about a run of the session has not ended: try again.')
      },
    },
  )
}

/** Oldest trees first, some at a time. Throws AppError `session_busy` where a run began behind `lastId`, or has not ended. */
export async function removeSession(
  relational: Relational,
  session: SessionKey,
  lastId: number,
): Promise<void> {
  const { userId, sessionId, uid } = session
  for (;;) {
    const removed = await relational.transaction(async (tx) => {
      // Whoever begins a run in the session waits for it.
      await tx.query('select platform.lock_session($1, $2)', [userId, sessionId])
      const state = await readSessionState(tx, session, null)
      if (state.active !== null || state.lastId > lastId) throw sessionBusy(state.active)
      const { rows } = await tx.query<{ trees: number }>(removal, [userId, sessionId, uid, treesAtOnce])
      return rows[0]!.trees
    })
    if (removed < treesAtOnce) return
  }
}

export function sessionBusy(active: string | null): AppError {
  if (active === null)
    return new AppError('session_busy', 'A message came meanwhile: the session is not deleted.')
  const message = `The session has a run that has not ended: ${active}. Cancel it, or wait for its end.`
  return new AppError('session_busy', message, { members: { activeRunId: active } })
}

const removal = `with roots as materialized (
    select run_id, goal_id from platform.session_roots($1, $2, $3) order by id limit $4),
  own as materialized (
    select run_id from roots
    union all select m.run_id from platform.runs m join roots on m.root_run_id = roots.run_id
    where m.parent_run_id is not null),
  every as materialized (
    select run_id from own
    union select report_run_id from platform.run_reports where run_id in (select run_id from own)),
  events as (delete from platform.run_events where root_run_id in (select run_id from every)),
  trees as (delete from platform.run_trees where root_run_id in (select run_id from every)),
  reports as (delete from platform.run_reports where run_id in (select run_id from own)),
  gone as (delete from platform.runs where run_id in (select run_id from every)),
  dispatches as (delete from platform.dispatches where goal_id in (select goal_id from roots))
  select count(*)::integer as trees from roots`
