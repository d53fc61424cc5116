/** Collective dispatches: one goal, one run for each agent, accepted together; and lists of them. */

import type { Relational, SqlExecutor, SqlTransaction, SqlValue } from '#engines/relational/port.ts'
import { AppError } from '#lib/errors.ts'
import { sizedPage } from '#runtime/http/paging.ts'
import { createGoal, moveDispatchGoal } from '#services/records/goals/goals.ts'
import type { Author } from '#services/records/store/kind.ts'
import type { NodeSet } from '../nodes/nodes.ts'
import { insertRun, type NewRun, originOf, refusal } from './accept.ts'
import { cancelNotice, wakeDispatchers } from './claims.ts'
import { axon, cancelWithin } from './end.ts'
import {
  type Content,
  type Dispatch,
  type DispatchStatus,
  type Run,
  type RunStatus,
  runColumns,
  runsWithTrees,
} from './types.ts'

const titleLengthMax = 120
const deadlineMs = 300_000

export interface NewDispatch
  extends Pick<NewRun, 'userId' | 'sessionId' | 'callerUid' | 'requestId' | 'traceparent' | 'metadata'> {
  message: Content
  /** Author of the goal. */
  author: Author
  /** The same in every run of one request: the dispatch that it made before is given again. */
  creationKey: string
  /** One for each agent, in the order of the nodes file. */
  runs: { slug: string; agent: string; runId: string }[]
  /** Default five minutes. */
  deadlineMs?: number
}

/** A run for every agent but the orchestrator. */
export function runsForAll({ nodes }: NodeSet, runIdFor: (slug: string) => string): NewDispatch['runs'] {
  const others = nodes.filter(({ slug }) => slug !== axon.slug)
  return others.map(({ slug, codename }) => ({ slug, agent: codename, runId: runIdFor(slug) }))
}

/** The goal, its dispatch and the runs commit together. Throws AppError `user_mismatch`, `session_queue_full`, `too_many_waiting`. */
export async function acceptDispatch(relational: Relational, given: NewDispatch): Promise<Dispatch> {
  const goalId = await relational.transaction((tx) => insertDispatchOf(tx, given))
  for (const { slug } of given.runs) wakeDispatchers(relational, slug)
  return (await readDispatch(relational, goalId))!
}

/** As `acceptDispatch`, in a transaction: wake the dispatchers behind it. Gives the id of its goal. */
export async function insertDispatchOf(tx: SqlTransaction, given: NewDispatch): Promise<number> {
  const goal = await createGoal(tx, goalOf(given), given.author, originOf(given))
  const deadline = await insertDispatch(tx, goal.id, given)
  if (deadline) await insertRuns(tx, goal.id, deadline, given)
  return goal.id
}

function goalOf({ message, creationKey }: NewDispatch) {
  const text = message.parts.flatMap((part) => part.text ?? []).join('\n')
  const line = text.trim().split('\n', 1)[0]!.slice(0, titleLengthMax).toWellFormed()
  return {
    title: line.replaceAll('\0', '\ufffd') || 'Dispatch',
    description: text.replaceAll('\0', '\ufffd').toWellFormed(),
    creationKey,
    ofDispatch: true,
  }
}

/** Its deadline; undefined when the dispatch exists already. */
async function insertDispatch(
  tx: SqlTransaction,
  goalId: number,
  given: NewDispatch,
): Promise<Date | undefined> {
  const { rows } = await tx.query<{ deadline: Date }>(
    `insert into platform.dispatches (goal_id, user_id, session_id, message, caller_uid, request_id, run_ids, status,
       deadline)
     values ($1, $2, $3, $4::json, $5, $6, $7::text[], 'running',
       clock_timestamp() + make_interval(secs => $8::float8 / 1000))
     on conflict (goal_id) do nothing returning deadline`,
    [
      goalId,
      given.userId,
      given.sessionId,
      JSON.stringify(given.message),
      given.callerUid,
      given.requestId,
      given.runs.map(({ runId }) => runId),
      given.deadlineMs ?? deadlineMs,
    ],
  )
  return rows[0]?.deadline
}

async function insertRuns(
  tx: SqlTransaction,
  goalId: number,
  deadline: Date,
  given: NewDispatch,
): Promise<void> {
  const { userId, sessionId, message, callerUid, requestId, traceparent = null, metadata = null } = given
  const shared = { userId, sessionId, message, callerUid, requestId, traceparent, metadata, goalId, deadline }
  // Their lanes are locked in one order, so that two dispatches never wait for each other.
  const bySlug = given.runs.toSorted((a, b) => (a.slug < b.slug ? -1 : 1))
  for (const run of bySlug) {
    const made = await insertRun(tx, { ...run, ...shared, trigger: 'dispatch', streaming: false })
    if (!made.run) throw refusal(made, run.agent)
  }
}

export async function readDispatch(executor: SqlExecutor, goalId: number): Promise<Dispatch | null> {
  const { rows } = await executor.query<Omit<Dispatch, 'runs'>>(
    `select goal_id as "goalId", user_id as "userId", user_uid as "userUid", session_id as "sessionId", status, deadline,
       result, caller_uid as "callerUid", created_at as "createdAt", ended_at as "endedAt"
     from platform.dispatches where goal_id = $1`,
    [goalId],
  )
  const row = rows[0]
  if (!row) return null
  const runs = await executor.query<Run>(
    `select ${runColumns} from ${runsWithTrees} join platform.dispatches d on d.goal_id = r.goal_id
     where r.goal_id = $1 and r.trigger = 'dispatch' order by array_position(d.run_ids, r.run_id)`,
    [goalId],
  )
  return { ...row, runs: runs.rows }
}

/** A dispatch that has ended stays as it is. Throws AppError `dispatch_not_found`. */
export async function cancelDispatch(
  relational: Relational,
  goalId: number,
  headers: Record<string, string> = {},
): Promise<Dispatch> {
  const canceled = await relational.transaction(async (tx) => {
    await cancelWithin(tx, 'select run_id from platform.runs where goal_id = $1', goalId, headers)
    return endDispatch(tx, goalId, { status: 'canceled', result: null })
  })
  const dispatch = await readDispatch(relational, goalId)
  if (!dispatch) throw new AppError('dispatch_not_found', `There is no dispatch ${goalId}.`)
  if (canceled) wakeDispatchers(relational, cancelNotice)
  return dispatch
}

const goalStatusOf = {
  completed: 'completed',
  partial: 'completed',
  failed: 'failed',
  canceled: 'canceled',
} as const

/** The dispatch and its goal end together; false when it had ended. */
export async function endDispatch(
  tx: SqlTransaction,
  goalId: number,
  end: { status: keyof typeof goalStatusOf; result: string | null },
): Promise<boolean> {
  const { rowCount } = await tx.query(
    `update platform.dispatches set status = $2, result = $3, ended_at = clock_timestamp()
     where goal_id = $1 and status = 'running'`,
    [goalId, end.status, end.result],
  )
  if (rowCount === 0) return false
  await moveDispatchGoal(tx, goalId, goalStatusOf[end.status])
  return true
}

interface DispatchQuery {
  /** Those that the caller of this uid started, or that are of this user; without it everybody's. */
  own?: string
  status?: DispatchStatus
  limit: number
  /** Only those with a smaller goal id. */
  before?: number
}

export interface ListedDispatch extends Omit<Dispatch, 'userUid' | 'result' | 'callerUid' | 'runs'> {
  title: string
  /** Its agents by state, without those that joined; empty states are missing. */
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
  if (own !== undefined) {
    const uid = param(own)
    conditions.push(`(d.caller_uid = ${uid} or d.user_uid = ${uid})`)
  }
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
