/** Lists dispatches with the title of their goals and how many of their runs are in which state. */

import type { SqlExecutor, SqlValue } from '#engines/relational/port.ts'
import { sizedPage } from '#runtime/http/sized-page.ts'
import type { DispatchStatus, RunStatus } from './types.ts'

interface DispatchQuery {
  /** Those that this caller started, or that are of this user, by uid; without it everybody's. */
  own?: { callerUid: string; userUid: string }
  status?: DispatchStatus
  limit: number
  /** Only those with a smaller goal id. */
  before?: number
}

export interface ListedDispatch {
  goalId: number
  title: string
  status: DispatchStatus
  userId: string
  sessionId: string
  deadline: Date
  createdAt: Date
  endedAt: Date | null
  /** Of its agents, without those that joined; a state that none has is missing. */
  counts: Partial<Record<RunStatus, number>>
}

/** The newest first, by pages that end at `limit` or at `pageBytesMax`; `next` is the smallest goal id of the page, null on the last one. */
export async function listDispatches(
  executor: SqlExecutor,
  query: DispatchQuery,
): Promise<{ dispatches: ListedDispatch[]; next: number | null }> {
  const { rows, isLast } = await sizedPage<ListedDispatch>(query.limit, (limit, last) =>
    readDispatches(executor, { ...query, limit, ...(last ? { before: last.goalId } : {}) }),
  )
  return { dispatches: rows, next: isLast ? null : rows.at(-1)!.goalId }
}

async function readDispatches(
  executor: SqlExecutor,
  { own, status, limit, before }: DispatchQuery,
): Promise<ListedDispatch[]> {
  const params: SqlValue[] = [limit]
  const conditions: string[] = []
  const param = (value: SqlValue) => `$${params.push(value)}`
  if (own) conditions.push(`(d.caller_uid = ${param(own.callerUid)} or d.user_uid = ${param(own.userUid)})`)
  if (status !== undefined) conditions.push(`d.status = ${param(status)}`)
  if (before !== undefined) conditions.push(`d.goal_id < ${param(before)}`)
  const { rows } = await executor.query<ListedDispatch>(
    `select d.goal_id as "goalId", g.title, d.status, d.user_id as "userId", d.session_id as "sessionId", d.deadline,
       d.created_at as "createdAt", d.ended_at as "endedAt", coalesce(counted.counts, '{}'::jsonb) as counts
     from platform.dispatches d join platform.goals g on g.id = d.goal_id
     left join lateral (
       select jsonb_object_agg(status, runs) as counts from (
         select r.status, count(*)::integer as runs from platform.runs r
         where r.goal_id = d.goal_id and r.trigger = 'dispatch' group by r.status) by_status
     ) counted on true
     ${conditions.length === 0 ? '' : `where ${conditions.join(' and ')}`}
     order by d.goal_id desc limit $1`,
    params,
  )
  return rows
}
