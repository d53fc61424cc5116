/** Reads runs and their events. */

import type { SqlExecutor, SqlValue } from '#engines/relational/port.ts'
import { pieceBytesMax } from '#runtime/http/answers.ts'
import { sizedPage } from '#runtime/http/paging.ts'
import { parseExact } from '#stidx/exact-json.ts'
import {
  type Content,
  type Run,
  type RunEvent,
  type RunStatus,
  runColumns,
  runStatuses,
  runsWithTrees,
  type StoredEvent,
  spokenText,
  type WholeRun,
  wholeRunColumns,
} from './types.ts'

export async function readRun(executor: SqlExecutor, runId: string): Promise<WholeRun | null> {
  const { rows } = await executor.query<Omit<WholeRun, 'text'>>(
    `select ${wholeRunColumns} from ${runsWithTrees} where r.run_id = $1`,
    [runId],
  )
  const run = rows[0]
  return run ? { ...run, text: run.message && spokenText(run.message) } : null
}

/** With all of its parts. */
export async function readMessage(executor: SqlExecutor, runId: string): Promise<Content | null> {
  const { rows } = await executor.query<{ message: Content | null }>(
    'select message from platform.runs where run_id = $1',
    [runId],
  )
  return rows[0]?.message ?? null
}

export interface RunQuery {
  /** Only those that the caller of this uid started, or that are of this user, without reports; null: everybody's. */
  own: string | null
  /** Only runs of users of this name. */
  userId?: string
  agent?: string
  status?: RunStatus
  sessionId?: string
  /** All of these texts are among those of the run. */
  metadata?: Record<string, string>
  goalId?: number | string
  rootRunId?: string
  /** Runs that one request accepted, and those that joined them. */
  requestId?: string
  limit: number
  /** `next` of the page before. */
  before?: number
}

/** The newest first, by pages that end at `limit` or at `pageBytesMax`; `next` is undefined on the last one. `agent` is a codename or slug, in any case. */
export async function listRuns(executor: SqlExecutor, query: RunQuery) {
  const { rows, isLast } = await sizedPage<Run & { id: number }>(query.limit, (limit, last) =>
    readRuns(executor, { ...query, limit, ...(last ? { before: last.id } : {}) }),
  )
  return { runs: rows.map(({ id: _, ...run }) => run), next: isLast ? undefined : rows.at(-1)!.id }
}

async function readRuns(executor: SqlExecutor, query: RunQuery): Promise<(Run & { id: number })[]> {
  const params: SqlValue[] = [query.limit]
  const conditions: string[] = []
  const where = (sql: (param: string) => string, value: SqlValue | undefined) => {
    if (value !== undefined) conditions.push(sql(`$${params.push(value)}`))
  }
  where((p) => `r.trigger <> 'report' and (r.caller_uid = ${p} or r.user_uid = ${p})`, query.own ?? undefined)
  where((p) => `r.user_id = ${p}`, query.userId)
  where((p) => `r.slug = lower(${p})`, query.agent)
  where((p) => `r.status = ${p}`, query.status)
  where((p) => `r.session_id = ${p}`, query.sessionId)
  // Twice: an index of the runs that have any is used only where the condition names it.
  where(
    (p) => `r.metadata is not null and r.metadata @> ${p}::jsonb`,
    query.metadata && JSON.stringify(query.metadata),
  )
  where((p) => `r.goal_id = ${p}::bigint`, query.goalId)
  where((p) => `(r.run_id = ${p} or r.parent_run_id is not null and r.root_run_id = ${p})`, query.rootRunId)
  where((p) => `r.request_id = ${p}`, query.requestId)
  where((p) => `r.id < ${p}`, query.before)
  const { rows } = await executor.query<Run & { id: number }>(
    `select r.id, ${runColumns} from ${runsWithTrees}
     ${conditions.length === 0 ? '' : `where ${conditions.join(' and ')}`} order by r.id desc limit $1`,
    params,
  )
  return rows
}

/** How many runs there are, by status; reports to AXON are left out. */
export async function countRuns(executor: SqlExecutor): Promise<Record<RunStatus, number>> {
  const { rows } = await executor.query<{ status: RunStatus; count: number }>(
    `select status, count(*) as count from platform.runs where trigger <> 'report' group by status`,
  )
  const counts = Object.fromEntries(runStatuses.map((status) => [status, 0])) as Record<RunStatus, number>
  for (const { status, count } of rows) counts[status] = count
  return counts
}

/**
 * Durable events of the tree behind `after`, in order; with `runId` those of that run alone. They end at `limit` or at
 * `pieceBytesMax`: there are no more only where none is given.
 */
export async function readEvents(
  executor: SqlExecutor,
  { rootRunId, after, limit, runId }: { rootRunId: string; after: number; limit: number; runId?: string },
): Promise<StoredEvent[]> {
  return storedEvents(
    executor,
    `select seq, run_id, event from platform.run_events
      where root_run_id = $1 and seq > $2 and ($4::text is null or run_id = $4) order by seq limit $3`,
    [rootRunId, after, limit, runId ?? null],
  )
}

/** As `readEvents`, over all runs of a dispatch; `seq` counts within the dispatch. */
export async function readDispatchEvents(
  executor: SqlExecutor,
  { goalId, after, limit }: { goalId: number; after: number; limit: number },
): Promise<StoredEvent[]> {
  return storedEvents(
    executor,
    `select goal_seq as seq, run_id, event from platform.run_events
      where goal_id = $1 and goal_seq > $2 order by goal_seq limit $3`,
    [goalId, after, limit],
  )
}

/** `selection` gives `seq`, `run_id` and `event`. Long events stay where they are until they are wanted: their lengths are known without them. */
export async function storedEvents(
  executor: SqlExecutor,
  selection: string,
  params: SqlValue[],
): Promise<StoredEvent[]> {
  const { rows } = await executor.query<{ seq: number; runId: string; event: string }>(
    `select seq, run_id as "runId", event from (
       select *, sum(octet_length(event)) over (order by seq rows unbounded preceding) as upto from (${selection}) found) sized
     where upto - octet_length(event) < ${pieceBytesMax} order by seq`,
    params,
  )
  return rows.map(({ seq, runId, event }) => ({ seq, runId, event: parseEvent(event) }))
}

/** Numbers that no double holds keep their digits. */
export function parseEvent(json: string): RunEvent {
  return parseExact(json) as RunEvent
}
