/** Schedules: messages that go to an agent, or to all, by the clock. Their rows, and what became of each planned time. */

import { createHash } from 'node:crypto'
import type { Relational, SqlExecutor, SqlValue } from '#engines/relational/port.ts'
import { AppError } from '#lib/errors.ts'
import { randomHex } from '#lib/ids.ts'
import { sizedPage } from '#runtime/http/paging.ts'
import { noticeOn } from '#runtime/notices.ts'
import type { SeenBy } from '../state/sessions.ts'
import type { Content } from '../state/types.ts'
import { nextTime, type Plan } from './times.ts'

/** Schedules of one owner. */
const ownedMax = 100
export const schedulesChannel = 'flotilla_schedules'

/** What its owner says of it. */
export interface ScheduleFields extends Plan {
  name: string | null
  /** A codename; null: all agents. */
  agent: string | null
  message: Content
  /** Null: a new one each time. */
  sessionId: string | null
  paused: boolean
}

export interface Schedule extends ScheduleFields {
  id: string
  number: number
  ownerUid: string
  /** As runs name their user: the owner's id, or its uid where it is a person or gone. */
  owner: string
  pausedReason: string | null
  nextAt: Date | null
  lastAt: Date | null
  lastRunId: string | null
  lastGoalId: number | null
  failures: number
  createdAt: Date
  updatedAt: Date
}

export const scheduleColumns = `s.number, s.id, s.owner_uid as "ownerUid",
  coalesce((select a.agent_id from platform.agents a where a.uid = s.owner_uid), s.owner_uid) as owner, s.name, s.agent, s.message,
  s.cron, s.timezone, s.at, s.session_id as "sessionId", s.missed, s.paused, s.paused_reason as "pausedReason", s.ends_at as "endsAt",
  s.next_at as "nextAt", s.last_at as "lastAt", s.last_run_id as "lastRunId", s.last_goal_id as "lastGoalId", s.failures,
  s.created_at as "createdAt", s.updated_at as "updatedAt"`

export function newScheduleId(): string {
  return `sched_${randomHex(16)}`
}

/** The same for the same seed. */
export function scheduleIdOf(seed: string): string {
  return `sched_${createHash('sha256').update(`schedule\n${seed}`).digest('hex').slice(0, 32)}`
}

export async function databaseNow(executor: SqlExecutor): Promise<Date> {
  const { rows } = await executor.query<{ now: Date }>('select clock_timestamp() as now')
  return rows[0]!.now
}

/** One that exists under the id is given as it is. Throws AppError `too_many_schedules`. */
export async function createSchedule(
  relational: Relational,
  { id, ownerUid, ...fields }: ScheduleFields & { id: string; ownerUid: string },
): Promise<Schedule> {
  return relational.transaction(async (tx) => {
    await tx.query(`select pg_advisory_xact_lock(hashtextextended('schedules of ' || $1, 0))`, [ownerUid])
    const known = await readSchedule(tx, id)
    if (known) return known
    const owned = await tx.query<{ count: number; now: Date }>(
      `select count(*) as count, clock_timestamp() as now from platform.schedules where owner_uid = $1`,
      [ownerUid],
    )
    const { count, now } = owned.rows[0]!
    if (count >= ownedMax)
      throw new AppError('too_many_schedules', `You have ${ownedMax} schedules already: delete one first.`)
    await tx.query(
      `insert into platform.schedules (id, owner_uid, name, agent, message, cron, timezone, at, session_id, missed, paused, ends_at,
         next_at)
       values ($1, $2, $3, $4, $5::json, $6, $7, $8, $9, $10, $11, $12, $13) returning ${noticeOn(schedulesChannel)}`,
      [id, ownerUid, ...valuesOf(fields), fields.paused ? null : nextTime(fields, now)],
    )
    return (await readSchedule(tx, id))!
  })
}

function valuesOf(fields: ScheduleFields): SqlValue[] {
  const { name, agent, message, cron, timezone, at, sessionId, missed, paused, endsAt } = fields
  return [name, agent, JSON.stringify(message), cron, timezone, at, sessionId, missed, paused, endsAt]
}

/**
 * Gives back the schedule as it is now; `change` makes the fields of those that it has, under its lock, with the time of the
 * database. Going on after a pause begins a new count of failures; times of the pause are not missed. Throws AppError
 * `schedule_not_found`, and what `change` throws.
 */
export async function changeSchedule(
  relational: Relational,
  id: string,
  change: (before: Schedule, now: Date) => ScheduleFields,
): Promise<Schedule> {
  return relational.transaction(async (tx) => {
    const { rows } = await tx.query<Schedule & { now: Date }>(
      `select ${scheduleColumns}, clock_timestamp() as now from platform.schedules s where s.id = $1 for update`,
      [id],
    )
    const [row] = rows
    if (!row) throw new AppError('schedule_not_found', 'There is no such schedule.')
    const { now, ...before } = row
    const after = change(before, now)
    const goesOn = before.paused && !after.paused
    const samePlan =
      !goesOn &&
      before.cron === after.cron &&
      before.timezone === after.timezone &&
      before.at?.getTime() === after.at?.getTime() &&
      before.endsAt?.getTime() === after.endsAt?.getTime()
    // A time that is due now is fired, whatever else is changed.
    const nextAt = after.paused ? null : samePlan ? before.nextAt : nextTime(after, now)
    await tx.query(
      `update platform.schedules set name = $2, agent = $3, message = $4::json, cron = $5, timezone = $6, at = $7, session_id = $8,
         missed = $9, paused = $10, ends_at = $11, next_at = $12, updated_at = clock_timestamp(),
         failures = case when $13::boolean then 0 else failures end,
         paused_reason = case when $10 and paused then paused_reason end
       where id = $1 returning ${noticeOn(schedulesChannel)}`,
      [id, ...valuesOf(after), nextAt, goesOn],
    )
    return (await readSchedule(tx, id))!
  })
}

export async function readSchedule(executor: SqlExecutor, id: string): Promise<Schedule | null> {
  const { rows } = await executor.query<Schedule>(
    `select ${scheduleColumns} from platform.schedules s where s.id = $1`,
    [id],
  )
  return rows[0] ?? null
}

/** Its runs stay. False where there is none. */
export async function deleteSchedule(executor: SqlExecutor, id: string): Promise<boolean> {
  const { rowCount } = await executor.query('delete from platform.schedules where id = $1', [id])
  return rowCount > 0
}

export async function deleteSchedulesOf(executor: SqlExecutor, ownerUid: string): Promise<void> {
  await executor.query('delete from platform.schedules where owner_uid = $1', [ownerUid])
}

interface Page {
  limit: number
  /** `next` of the page before. */
  before?: number
}

/** The newest first. `own`: those of this owner; null: everybody's. `next` is undefined on the last page. */
export async function listSchedules(executor: SqlExecutor, { own, ...page }: Page & { own: SeenBy }) {
  const { rows, isLast } = await sizedPage<Schedule>(page.limit, async (limit, last) => {
    const found = await executor.query<Schedule>(
      `select ${scheduleColumns} from platform.schedules s
       where ($2::text is null or s.owner_uid = $2) and ($3::bigint is null or s.number < $3) order by s.number desc limit $1`,
      [limit, own, last?.number ?? page.before ?? null],
    )
    return found.rows
  })
  return { schedules: rows, next: isLast ? undefined : rows.at(-1)!.number }
}

/** What became of a planned time. */
export interface Firing {
  number: number
  plannedAt: Date
  firedAt: Date
  runId: string | null
  goalId: number | null
  /** As its run or dispatch; `refused`: it was not started, `missed`: nobody was there. */
  status: string
  error: { code: string; message: string } | null
}

/** The newest first. */
export async function listFirings(executor: SqlExecutor, { id, ...page }: Page & { id: string }) {
  const { rows, isLast } = await sizedPage<Firing>(page.limit, async (limit, last) => {
    const found = await executor.query<Firing>(
      `select f.number, f.planned_at as "plannedAt", f.fired_at as "firedAt", f.run_id as "runId", f.goal_id as "goalId",
         coalesce(r.status, d.status, f.status) as status, coalesce(r.error, f.error) as error
       from platform.schedule_firings f
       left join platform.runs r on r.run_id = f.run_id left join platform.dispatches d on d.goal_id = f.goal_id
       where f.schedule_id = $2 and ($3::bigint is null or f.number < $3) order by f.number desc limit $1`,
      [limit, id, last?.number ?? page.before ?? null],
    )
    return found.rows
  })
  return { firings: rows, next: isLast ? undefined : rows.at(-1)!.number }
}

/** How many there are: those that will fire, and those that are paused. */
export async function countSchedules(executor: SqlExecutor): Promise<{ active: number; paused: number }> {
  const { rows } = await executor.query<{ active: number; paused: number }>(
    `select count(*) filter (where next_at is not null)::integer as active, count(*) filter (where paused)::integer as paused
     from platform.schedules`,
  )
  return rows[0]!
}
