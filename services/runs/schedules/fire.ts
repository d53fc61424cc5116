/**
 * Fires schedules that are due. Each firing is one transaction under the lock of its schedule: the run, the row of the planned time
 * and the next time commit together. So none fires twice or is lost, however many instances look and wherever one of them dies.
 */

import { type Relational, type SqlTransaction, sqlState } from '#engines/relational/port.ts'
import { AppError, isUnavailable } from '#lib/errors.ts'
import { createNote } from '#services/records/notes/notes.ts'
import { type Author, platformAuthor } from '#services/records/store/kind.ts'
import type { NodeSet } from '../nodes/nodes.ts'
import { insertRun, refusal, runIdOf } from '../state/accept.ts'
import { wakeDispatchers } from '../state/claims.ts'
import { insertDispatchOf, runsForAll } from '../state/dispatches.ts'
import { type Schedule, scheduleColumns } from './schedules.ts'
import { type Due, dueOf } from './times.ts'

/** So many failures in a row pause a schedule. */
const failuresMax = 10
/** As which commands run. */
const operator = 'operator'

/** What became of one firing, for logs and metrics. */
export interface Fired {
  schedule: string
  result: 'started' | 'refused' | 'missed' | 'paused'
  /** Behind the planned time. */
  lateMs: number
  /** Where something was started or refused. */
  code?: string
}

interface Firing {
  relational: Relational
  nodes(): NodeSet
}

/** Fires the schedule that has been due for the longest; undefined: none is due that nobody else is at. */
export async function fireNext({ relational, nodes }: Firing): Promise<Fired[] | undefined> {
  const slugs: string[] = []
  const fired = await relational.transaction(async (tx) => {
    const { rows } = await tx.query<Schedule & { now: Date }>(
      `select ${scheduleColumns}, clock_timestamp() as now from platform.schedules s
       where s.next_at <= clock_timestamp() order by s.next_at limit 1 for update skip locked`,
    )
    const [row] = rows
    if (!row) return undefined
    const { now, ...schedule } = row
    const planned = schedule.nextAt as Date
    const due = dueOf(schedule, planned, now)
    const owner = await readOwner(tx, schedule.ownerUid)
    if (!owner) return [await pause(tx, schedule, 'its owner is gone', due, now)]
    return fire(tx, { schedule, due, owner, now, nodes: nodes(), slugs })
  })
  for (const slug of slugs) wakeDispatchers(relational, slug)
  return fired
}

interface OneFiring {
  schedule: Schedule
  due: Due
  owner: Author & { mayRun: boolean }
  now: Date
  nodes: NodeSet
  /** Gets the agents that have something to do after the commit. */
  slugs: string[]
}

async function fire(tx: SqlTransaction, firing: OneFiring): Promise<Fired[]> {
  const { schedule, due, now } = firing
  const fired: Fired[] = []
  const lateMs = (planned: Date) => now.getTime() - planned.getTime()
  if (due.missed) {
    await keepFiring(tx, schedule.id, due.missed, { status: 'missed' })
    fired.push({ schedule: schedule.id, result: 'missed', lateMs: lateMs(due.missed) })
  }
  if (due.fires === null) {
    await advance(tx, schedule, due)
    return fired
  }
  const started = await start(tx, firing, due.fires)
  await keepFiring(tx, schedule.id, due.fires, started)
  await advance(tx, schedule, due, started)
  const { error } = started
  const result = error ? 'refused' : 'started'
  fired.push({
    schedule: schedule.id,
    result,
    lateMs: lateMs(due.fires),
    ...(error ? { code: error.code } : {}),
  })
  if (error && (await noteFailure(tx, schedule.id)))
    fired.push({ schedule: schedule.id, result: 'paused', lateMs: 0 })
  return fired
}

interface Started {
  status: 'started' | 'refused' | 'missed'
  runId?: string
  goalId?: number
  error?: { code: string; message: string }
}

/** A refused one leaves nothing of itself behind. */
async function start(tx: SqlTransaction, firing: OneFiring, planned: Date): Promise<Started> {
  await tx.query('savepoint firing')
  try {
    const started = await (firing.schedule.agent === null
      ? startDispatch(tx, firing, planned)
      : startRun(tx, firing, firing.schedule.agent, planned))
    await tx.query('release savepoint firing')
    return { status: 'started', ...started }
  } catch (error) {
    // Those pass: the firing is tried again.
    if (isUnavailable(error) || sqlState(error)?.startsWith('40')) throw error
    await tx.query('rollback to savepoint firing')
    firing.slugs.length = 0
    const { code, message } =
      error instanceof AppError ? error : new AppError('internal_error', 'The platform could not start it.')
    return { status: 'refused', error: { code, message } }
  }
}

/** What the run and the dispatch of a planned time have in common. */
function commonOf({ schedule, owner }: OneFiring, planned: Date) {
  if (!owner.mayRun) throw new AppError('forbidden', 'The owner of the schedule may start no runs.')
  const at = planned.toISOString()
  return {
    at,
    userId: owner.name,
    sessionId: schedule.sessionId ?? `${schedule.id}-${at}`,
    message: schedule.message,
    callerUid: owner.uid,
    requestId: `${schedule.id}.${planned.getTime()}`,
    traceparent: null,
  }
}

async function startRun(tx: SqlTransaction, firing: OneFiring, agent: string, planned: Date) {
  const { nodes, schedule, slugs } = firing
  const { at, ...common } = commonOf(firing, planned)
  const node = nodes.byCodename(agent)
  if (!node) throw new AppError('agent_not_found', `The nodes file names no agent ${agent}.`)
  const runId = runIdOf('schedule', schedule.id, at)
  const run = {
    ...common,
    runId,
    slug: node.slug,
    agent: node.codename,
    trigger: 'schedule' as const,
    streaming: false,
  }
  const inserted = await insertRun(tx, run)
  // One that exists was started for this time already.
  if (!inserted.run && inserted.refused) throw refusal(inserted, node.codename)
  slugs.push(node.slug)
  return { runId }
}

async function startDispatch(tx: SqlTransaction, firing: OneFiring, planned: Date) {
  const { nodes, owner, schedule, slugs } = firing
  const { at, ...common } = commonOf(firing, planned)
  const runs = runsForAll(nodes, (slug) => runIdOf('schedule', schedule.id, at, slug))
  if (runs.length === 0) throw new AppError('agent_not_found', 'The nodes file names no agent.')
  const creationKey = `schedule/${schedule.id}/${at}`
  const goalId = await insertDispatchOf(tx, { ...common, author: owner, creationKey, runs })
  slugs.push(...runs.map(({ slug }) => slug))
  return { goalId }
}

/** With the access that it has now; null: it is gone. */
async function readOwner(tx: SqlTransaction, uid: string): Promise<OneFiring['owner'] | null> {
  if (uid === operator) return { name: operator, uid, isAdmin: true, mayRun: true }
  const { rows } = await tx.query<{ name: string; access: string }>(
    `select agent_id as name, access from platform.agents where uid = $1
     union all select uid, role from platform.people where uid = $1`,
    [uid],
  )
  const [owner] = rows
  if (!owner) return null
  const { name, access } = owner
  return { name, uid, isAdmin: access === 'admin', mayRun: access !== 'viewer' }
}

async function keepFiring(tx: SqlTransaction, id: string, planned: Date, started: Started): Promise<void> {
  const { status, runId = null, goalId = null, error = null } = started
  await tx.query(
    `insert into platform.schedule_firings (schedule_id, planned_at, status, run_id, goal_id, error)
     values ($1, $2, $3, $4, $5, $6::jsonb) on conflict do nothing`,
    [id, planned, status, runId, goalId, error && JSON.stringify(error)],
  )
}

async function advance(tx: SqlTransaction, { id }: Schedule, due: Due, started?: Started): Promise<void> {
  await tx.query(
    `update platform.schedules set next_at = $2, last_at = coalesce($3, last_at), last_run_id = case when $3 is null then last_run_id else $4 end,
       last_goal_id = case when $3 is null then last_goal_id else $5 end where id = $1`,
    [id, due.next, due.fires, started?.runId ?? null, started?.goalId ?? null],
  )
}

/** True: it was the last that the schedule may have. */
export async function noteFailure(tx: SqlTransaction, id: string): Promise<boolean> {
  const { rows } = await tx.query<Schedule>(
    `update platform.schedules s set failures = s.failures + 1 where s.id = $1 returning ${scheduleColumns}`,
    [id],
  )
  const schedule = rows[0]!
  if (schedule.paused || schedule.failures < failuresMax) return false
  await pauseFor(tx, schedule, `${failuresMax} failures in a row`)
  return true
}

async function pause(
  tx: SqlTransaction,
  schedule: Schedule,
  why: string,
  due: Due,
  now: Date,
): Promise<Fired> {
  await pauseFor(tx, schedule, why)
  const planned = due.fires ?? due.missed ?? now
  return { schedule: schedule.id, result: 'paused', lateMs: now.getTime() - planned.getTime() }
}

/** With a note to its owner, that says nothing of the message: everybody reads notes. */
async function pauseFor(tx: SqlTransaction, schedule: Schedule, why: string): Promise<void> {
  const { id, owner, agent } = schedule
  await tx.query(
    `update platform.schedules set paused = true, paused_reason = $2, next_at = null, updated_at = clock_timestamp() where id = $1`,
    [id, why],
  )
  const note = {
    subject: `A schedule of ${owner} is paused`.slice(0, 200).toWellFormed(),
    body:
      `Schedule ${id}, for ${agent ?? 'all agents'}, is paused: ${why}. \`flotilla schedules runs ${id}\` shows what became of its ` +
      `times, \`flotilla schedules resume ${id}\` lets it go on.`,
  }
  await createNote(tx, note, platformAuthor)
}

export interface Ahead {
  /** Until the next one is due, below 0 where one is; null: none will be. */
  nextMs: number | null
  /** How many wait to be fired. */
  due: number
  /** Runs or dispatches of schedules have not ended, as far as is known. */
  open: boolean
}

export async function lookAhead(relational: Relational): Promise<Ahead> {
  const { rows } = await relational.query<Ahead>(
    `select (extract(epoch from min(next_at) - clock_timestamp()) * 1000)::float8 as "nextMs",
       count(*) filter (where next_at <= clock_timestamp())::integer as due,
       exists (select from platform.schedule_firings where status = 'started') as open
     from platform.schedules where next_at is not null`,
  )
  return rows[0]!
}
