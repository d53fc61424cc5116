/** Schedules: what fires, once, for whom and how late, on any relational engine. */

import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { migrate } from '#engines/relational/migrate.ts'
import type { Relational } from '#engines/relational/port.ts'
import type { Closeable } from '#lib/resource.ts'
import { provisionAgent, updateAgent } from '#services/access/agents/agents.ts'
import { migrationFolders } from '#services/migrations.ts'
import { type Fired, lookAhead } from '#services/runs/schedules/fire.ts'
import { startScheduler } from '#services/runs/schedules/scheduler.ts'
import {
  changeSchedule,
  createSchedule,
  type Firing,
  listFirings,
  newScheduleId,
  readSchedule,
  type Schedule,
  type ScheduleFields,
} from '#services/runs/schedules/schedules.ts'
import { listDispatches } from '#services/runs/state/dispatches.ts'
import { eventually } from '../support/eventually.ts'
import { silentLog } from '../support/relational.ts'
import { openRunWorld, type RunWorld } from '../support/run-dispatchers.ts'
import { fleet, nodesAt } from '../support/run-nodes.ts'
import { echoScript, openScriptedNode, type ScriptedNode } from '../support/scripted-node.ts'

const operator = 'operator'
const hourly: ScheduleFields = {
  name: null,
  agent: 'WHALE',
  message: { role: 'user', parts: [{ text: 'news?' }] },
  cron: '0 * * * *',
  timezone: 'UTC',
  at: null,
  endsAt: null,
  sessionId: null,
  missed: 'skip',
  paused: false,
}

export function describeSchedules(name: string, open: () => Promise<Relational>): void {
  let relational: Relational
  let node: ScriptedNode
  let world: RunWorld
  let schedulers: Closeable[] = []
  let fired: Fired[] = []

  beforeAll(async () => {
    relational = await open()
    await migrate(relational, silentLog, migrationFolders)
  })
  afterAll(() => relational?.close())
  beforeEach(async () => {
    node = await openScriptedNode(Object.fromEntries(fleet.map((slug) => [slug, echoScript])))
    world = openRunWorld(relational, node)
    fired = []
  })
  afterEach(async () => {
    await stopSchedulers()
    await world.close()
    await node.close()
    await relational.query(
      `truncate platform.runs, platform.run_trees, platform.run_events, platform.run_reports, platform.run_nodes,
         platform.dispatches, platform.notes, platform.outbox, platform.schedules, platform.schedule_firings`,
    )
  })

  const startOne = (slugs: readonly string[] = fleet) => {
    const nodes = nodesAt(node.url, slugs)
    const metrics = { fired: (one: Fired) => void fired.push(one), failed() {}, due() {} }
    schedulers.push(
      startScheduler({
        relational,
        log: silentLog,
        nodes: () => nodes,
        retentionDays: 30,
        firstMs: 0,
        metrics,
      }),
    )
  }
  const stopSchedulers = async () => {
    await Promise.all(schedulers.map((one) => one.close()))
    schedulers = []
  }
  const lookNow = async (slugs?: readonly string[]) => {
    await stopSchedulers()
    startOne(slugs)
  }
  const make = (given: Partial<ScheduleFields> = {}, ownerUid = operator) =>
    createSchedule(relational, { ...hourly, ...given, id: newScheduleId(), ownerUid })
  /** As if its time had come so many seconds ago. */
  const dueSince = (seconds: number, ...ids: string[]) =>
    relational.query(
      `update platform.schedules set next_at = date_trunc('milliseconds', clock_timestamp() - make_interval(secs => $1::float8))
       where id = any($2::text[])`,
      [seconds, ids],
    )
  const firings = async (id: string): Promise<Firing[]> =>
    (await listFirings(relational, { id, limit: 1_000 })).firings.reverse()
  const settled = (id: string, count: number): Promise<Firing[]> =>
    eventually(`${count} firings end`, async () => {
      const all = await firings(id)
      const open = all.some(({ status }) => ['started', 'queued', 'running'].includes(status))
      return all.length === count && !open ? all : null
    })
  const found = async (id: string): Promise<Schedule> => (await readSchedule(relational, id))!
  const notes = async () =>
    (await relational.query<{ subject: string; body: string }>('select subject, body from platform.notes'))
      .rows

  describe(`schedules on ${name}`, () => {
    test('a time that comes is one run of its owner, whose trigger says so', async () => {
      world.start()
      startOne()
      const { id, nextAt } = await make({ message: { role: 'user', parts: [{ text: '@pulse news?' }] } })
      expect(nextAt!.getTime()).toBeGreaterThan(Date.now())
      await dueSince(1, id)
      await lookNow()
      const [firing] = await settled(id, 1)
      const run = await world.ended(firing!.runId!)
      expect(run).toMatchObject({
        trigger: 'schedule',
        agent: 'WHALE',
        userId: operator,
        callerUid: operator,
        status: 'completed',
      })
      expect(run.joined).toContainEqual({ agent: 'PULSE', runId: expect.any(String) })
      const after = await found(id)
      expect([after.lastRunId, after.lastAt, after.failures]).toEqual([run.runId, firing!.plannedAt, 0])
      expect(after.nextAt).toEqual(nextAt)
      const { rows } = await relational.query<{ value: { event: string; task_id: string } }>(
        `select value from platform.outbox where topic = 'fleet.events'`,
      )
      expect(rows.map(({ value }) => value.event)).toContain('task.completed')
    })

    test('a look ahead: nothing without schedules, how long until the next one, and below 0 where one is due', async () => {
      const nothing = { nextMs: null, due: 0, open: false }
      expect(await lookAhead(relational)).toEqual(nothing)
      const { id } = await make()
      const ahead = await lookAhead(relational)
      expect(ahead).toEqual({ ...nothing, nextMs: expect.any(Number) })
      expect(ahead.nextMs).toBeGreaterThan(0)
      await dueSince(1, id)
      const due = await lookAhead(relational)
      expect(due).toEqual({ ...ahead, due: 1, nextMs: expect.any(Number) })
      expect(due.nextMs).toBeLessThan(0)
    })

    test('one time fires at the moment, by the clock of the database, and never again', async () => {
      world.start()
      startOne()
      const { rows } = await relational.query<{ at: Date }>(
        `select clock_timestamp() + interval '1500 milliseconds' as at`,
      )
      const { id } = await make({ cron: null, at: rows[0]!.at })
      const [firing] = await settled(id, 1)
      expect(firing!.firedAt.getTime()).toBeGreaterThanOrEqual(rows[0]!.at.getTime())
      expect((await found(id)).nextAt).toBeNull()
    })

    test('two instances fire a thousand schedules that are due in one second once each', async () => {
      const ids = Array.from({ length: 1_000 }, newScheduleId)
      const owners = await Promise.all(
        Array.from({ length: 10 }, (_, n) => provisionAgent(relational, { agentId: `scout-${n}` })),
      )
      for (const [n, id] of ids.entries()) {
        const ownerUid = owners[n % owners.length]!.agent.uid
        await createSchedule(relational, { ...hourly, id, ownerUid, sessionId: `s${n}` })
      }
      const more = createSchedule(relational, {
        ...hourly,
        id: newScheduleId(),
        ownerUid: owners[0]!.agent.uid,
      })
      await expect(more).rejects.toMatchObject({ code: 'too_many_schedules' })
      await dueSince(1, ...ids)
      startOne()
      startOne()
      await eventually('all have fired', async () => {
        const { rows } = await relational.query<{ count: number }>(
          'select count(*) as count from platform.schedules where last_at is not null',
        )
        return rows[0]!.count === ids.length
      })
      await stopSchedulers()
      const { rows } = await relational.query<{
        runs: number
        sessions: number
        firings: number
        late: number
      }>(
        `select count(*) as runs, count(distinct session_id) as sessions, (select count(*) from platform.schedule_firings) as firings,
           (select count(*) from platform.schedule_firings where status = 'missed') as late from platform.runs`,
      )
      expect(rows).toEqual([{ runs: 1_000, sessions: 1_000, firings: 1_000, late: 0 }])
      expect(fired.every(({ result }) => result === 'started')).toBe(true)
      expect(new Set(fired.map(({ schedule }) => schedule)).size).toBe(1_000)
    })

    test('times while nobody was there are skipped, or get one run for all of them', async () => {
      world.start()
      const skipped = await make()
      const once = await make({ missed: 'once' })
      await dueSince(3 * 3_600 + 120, skipped.id, once.id)
      startOne()
      await settled(once.id, 1)
      await settled(skipped.id, 1)
      expect((await firings(skipped.id)).map(({ status, runId }) => [status, runId])).toEqual([
        ['missed', null],
      ])
      expect((await firings(once.id)).map(({ status }) => status)).toEqual(['completed'])
      expect((await found(once.id)).nextAt).toEqual((await found(skipped.id)).nextAt)
      expect((await found(skipped.id)).failures).toBe(0)
    })

    test('the access of the owner counts as it is then; one that is gone pauses its schedules', async () => {
      world.start()
      const { agent } = await provisionAgent(relational, { agentId: 'scout' })
      const { id } = await make({}, agent.uid)
      expect((await found(id)).owner).toBe('scout')
      startOne()
      const fire = async () => {
        await dueSince(1, id)
        await lookNow()
      }
      await fire()
      expect(await settled(id, 1)).toMatchObject([{ status: 'completed' }])
      expect((await world.all())[0]).toMatchObject({
        userId: 'scout',
        userUid: agent.uid,
        callerUid: agent.uid,
      })
      await updateAgent(relational, 'scout', { access: 'viewer' })
      await fire()
      expect(await settled(id, 2)).toMatchObject([{}, { status: 'refused', error: { code: 'forbidden' } }])
      expect((await found(id)).failures).toBe(1)
      await updateAgent(relational, 'scout', { access: 'member' })
      await fire()
      await settled(id, 3)
      await eventually('the count begins again', async () => (await found(id)).failures === 0)
      await relational.query(`delete from platform.agents where uid = $1`, [agent.uid])
      await fire()
      await eventually('it is paused', async () => (await found(id)).paused)
      expect(await found(id)).toMatchObject({ pausedReason: 'its owner is gone', nextAt: null })
      expect(await firings(id)).toHaveLength(3)
      expect(await notes()).toMatchObject([{ body: expect.stringContaining(id) }])
    })

    test('ten failures in a row pause it, with a note that says nothing of the message', async () => {
      node.scripts.set('whale', () => [{ event: { errorCode: 'BROKEN', errorMessage: 'no' } }])
      world.start()
      startOne()
      const { id } = await make({ message: { role: 'user', parts: [{ text: 'the secret plan' }] } })
      for (let n = 1; n <= 10; n++) {
        await dueSince(1, id)
        await lookNow()
        await settled(id, n)
        await lookNow()
        await eventually(`${n} failures`, async () => (await found(id)).failures === n)
      }
      expect(await found(id)).toMatchObject({
        paused: true,
        pausedReason: '10 failures in a row',
        nextAt: null,
      })
      const all = await notes()
      expect(all).toMatchObject([{ subject: 'A schedule of operator is paused' }])
      expect(JSON.stringify(all)).not.toContain('secret plan')
      const resumed = await changeSchedule(relational, id, (before) => ({ ...before, paused: false }))
      expect(resumed).toMatchObject({ paused: false, pausedReason: null, failures: 0 })
      expect(resumed.nextAt!.getTime()).toBeGreaterThan(Date.now())
    })

    test('an agent that the nodes file does not name, and a full session, refuse; a later one starts', async () => {
      startOne(['pulse'])
      const { id } = await make()
      await dueSince(1, id)
      await lookNow(['pulse'])
      expect(await settled(id, 1)).toMatchObject([{ status: 'refused', error: { code: 'agent_not_found' } }])
      // Nobody works on runs: they wait in the session.
      const fixed = await make({ sessionId: 'news' })
      for (let n = 1; n <= 11; n++) {
        await stopSchedulers()
        await dueSince(11 - n, fixed.id)
        startOne()
        await eventually(`firing ${n}`, async () => (await firings(fixed.id)).length === n)
      }
      const last = (await firings(fixed.id)).at(-1)
      expect(last).toMatchObject({ status: 'refused', error: { code: 'session_queue_full' } })
      expect(await world.all()).toHaveLength(10)
    })

    test('all agents get it as a dispatch, and nothing of one that is refused is left', async () => {
      world.start()
      startOne()
      const { id } = await make({ agent: null })
      await dueSince(1, id)
      await lookNow()
      const [firing] = await settled(id, 1)
      const { dispatches } = await listDispatches(relational, { limit: 10 })
      expect(dispatches).toMatchObject([{ goalId: firing!.goalId, title: 'news?', userId: operator }])
      await eventually('it counts as completed', async () => (await firings(id))[0]!.status === 'completed')
      expect((await found(id)).lastGoalId).toBe(firing!.goalId)
    })

    test('a firing whose answer from the database was lost is there once', async () => {
      const { id } = await make()
      await dueSince(1, id)
      const planned = (await found(id)).nextAt!
      startOne()
      await eventually('it fired', async () => (await firings(id)).length === 1)
      await stopSchedulers()
      // As after a restore of the schedules alone.
      await relational.query('update platform.schedules set next_at = $2 where id = $1', [id, planned])
      startOne()
      await eventually('it went on', async () => (await found(id)).nextAt! > planned)
      expect(await firings(id)).toHaveLength(1)
      expect(await world.all()).toHaveLength(1)
    })

    test('a paused one does not fire, nor one behind its end', async () => {
      startOne()
      const paused = await make({ paused: true })
      const over = await make({ endsAt: new Date(Date.now() + 3_700_000) })
      expect([paused.nextAt, over.nextAt === null]).toEqual([null, false])
      // The end first: a scheduler that looks between the two would plan a next time.
      await relational.query(`update platform.schedules set ends_at = clock_timestamp() where id = $1`, [
        over.id,
      ])
      await dueSince(1, over.id)
      await lookNow()
      await eventually('it is over', async () => (await found(over.id)).nextAt === null)
      expect(await firings(paused.id)).toEqual([])
    })
  })
}
