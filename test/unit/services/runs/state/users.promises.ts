/** Whose runs are on any relational engine: new ones, those of instances that were not replaced yet, and those of before. */

import { copyFileSync, mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { migrate } from '#engines/relational/migrate.ts'
import type { Relational } from '#engines/relational/port.ts'
import { deleteAgent, provisionAgent } from '#services/access/agents/agents.ts'
import { addPerson } from '#services/access/people/people.ts'
import { notedBy } from '#services/access/people/rows.ts'
import { migrationFolders } from '#services/migrations.ts'
import { readConversation } from '#services/runs/dispatch/node-message.ts'
import { uidNamed } from '#services/runs/gateway/owned.ts'
import { insertRun, type NewRun, newRunId } from '#services/runs/state/accept.ts'
import { advanceDispatch } from '#services/runs/state/dispatch-progress.ts'
import {
  acceptDispatch,
  listDispatches,
  type NewDispatch,
  readDispatch,
} from '#services/runs/state/dispatches.ts'
import { endRuns } from '#services/runs/state/end.ts'
import { listRuns, readRun } from '#services/runs/state/read.ts'
import { silentLog } from '../../../../support/relational.ts'
import { accept, newRun } from '../../../../support/run-rows.ts'

const mismatch = expect.objectContaining({ code: 'user_mismatch', statusCode: 403 })

interface World {
  relational: Relational
  agent(agentId: string): Promise<string>
  person(email: string): Promise<string>
}

function worldOf(relational: Relational): World {
  const tester = { actor: { kind: 'command_line' as const, id: 'tester' } }
  return {
    relational,
    agent: async (agentId) => (await provisionAgent(relational, { agentId })).agent.uid,
    person: async (email) =>
      (await addPerson(relational, { email }, notedBy(tester, 'person.add'))).person.uid,
  }
}

interface Row {
  user: string
  caller: string
  session?: string
  root?: string
  goal?: number
  trigger?: string
  at?: Date
}

/** Writes a row as versions did that knew no uid of the user. */
async function writeRow({ relational }: World, given: Row): Promise<string> {
  const runId = newRunId()
  const { user, caller, session = runId, root = runId, goal = null, trigger = 'api', at = null } = given
  await relational.query(
    `insert into platform.runs (run_id, root_run_id, parent_run_id, slug, agent, user_id, session_id, status, trigger,
       caller_uid, goal_id, message, created_at)
     values ($1, $2, case when $1::text <> $2::text then $2 end, 'whale', 'WHALE', $3, $4, 'completed', $5, $6, $7,
       '{"parts":[{"text":"of before"}]}', coalesce($8::timestamptz, clock_timestamp()))`,
    [runId, root, user, session, trigger, caller, goal, at],
  )
  return runId
}

async function userUids({ relational }: World, table = 'runs'): Promise<Record<string, string | null>> {
  const id = table === 'runs' ? 'run_id' : 'goal_id'
  const { rows } = await relational.query<{ id: string; uid: string | null }>(
    `select ${id}::text as id, user_uid as uid from platform.${table}`,
  )
  return Object.fromEntries(rows.map((row) => [row.id, row.uid]))
}

const tables = `platform.runs, platform.run_trees, platform.run_events, platform.run_reports, platform.run_nodes,
  platform.run_turns, platform.dispatches, platform.outbox, platform.people`

export function describeUsers(open: () => Promise<Relational>): void {
  describe('users', () => {
    let world: World
    beforeAll(async () => {
      const relational = await open()
      await migrate(relational, silentLog, migrationFolders)
      world = worldOf(relational)
    })
    afterAll(() => world?.relational.close())
    afterEach(() => world.relational.query(`truncate ${tables} cascade; delete from platform.agents`))
    const opened = () => world
    describe('names', () => describeNames(opened))
    describe('an agent that is made again under an old id', () => describeRenewed(opened))
    describe('sessions', () => describeSessions(opened))
  })
  describeBefore(open)
}

function describeNames(opened: () => World): void {
  test('a name means an agent by its id, an agent or a person by uid, the operator, or nobody', async () => {
    const world = opened()
    const kite = await world.agent('Kite')
    const ada = await world.person('ada@x')
    const meant: [string, string | null][] = [
      ['Kite', kite],
      ['kITE', kite],
      [kite, kite],
      [ada, ada],
      ['operator', 'operator'],
      ['ada@x', null],
      ['kit', null],
      ['\u212aite', null],
      ['', null],
    ]
    for (const [name, uid] of meant) {
      expect([name, await uidNamed(world.relational, name)]).toEqual([name, uid])
      if (name === '') continue
      const given = { userId: name, callerUid: 'an admin', sessionId: newRunId() }
      const run = await accept(world.relational, given)
      expect([name, run.userUid]).toEqual([name, uid])
      expect(await readRun(world.relational, run.runId)).toEqual(run)
    }
  })

  test('who names itself by uid means itself, and an agent may be called operator', async () => {
    const world = opened()
    const agent = await world.agent('operator')
    const uidOf = async (given: Partial<NewRun>) =>
      (await accept(world.relational, { sessionId: newRunId(), ...given })).userUid
    expect(await uidOf({ userId: 'operator', callerUid: 'operator' })).toBe('operator')
    expect(await uidOf({ userId: 'operator', callerUid: agent })).toBe(agent)
    expect(await uidOf({ userId: agent, callerUid: agent })).toBe(agent)
  })

  test('rows and statements of earlier versions have it, too', async () => {
    const world = opened()
    const { relational } = world
    const kite = await world.agent('kite')
    const row = await writeRow(world, { user: 'kite', caller: kite })
    const joined = await writeRow(world, { user: 'kite', caller: kite, root: row, trigger: 'mention' })
    await relational.query(
      `insert into platform.dispatches (goal_id, user_id, session_id, message, caller_uid, run_ids, status, deadline)
       values (7, 'KITE', 'd', '{}', $1, '{}', 'running', now())`,
      [kite],
    )
    const ofDispatch = await writeRow(world, { user: 'KITE', caller: kite, goal: 7, trigger: 'dispatch' })
    const accepted = [newRunId(), newRunId()]
    for (const [n, claims] of ['', ', null, null, null'].entries()) {
      await relational.query(
        `select made from platform.accept_run($1, 'whale', 'WHALE', 'kite', $1, 'api', $2, null, null,
           '{"parts":[{"text":"x"}]}'::json, null, false, null, null, null, $1, null, 0, null, false, true, 10, 200,
           '{}'::jsonb, false${claims})`,
        [accepted[n]!, kite],
      )
    }
    const uids = await userUids(world)
    expect([row, joined, ofDispatch, ...accepted].map((id) => uids[id])).toEqual([
      kite,
      kite,
      kite,
      kite,
      kite,
    ])
    expect(await userUids(world, 'dispatches')).toEqual({ 7: kite })
  })

  test('lists are of callers and users by uid, filters by name', async () => {
    const { relational, agent } = opened()
    const kite = await agent('kite')
    const own = await accept(relational, { userId: 'kite', callerUid: 'an admin', sessionId: 'a' })
    const free = await accept(relational, { userId: 'ada', callerUid: kite, sessionId: 'b' })
    const idsOf = async (query: { own: string | null; userId?: string }) =>
      (await listRuns(relational, { limit: 9, ...query })).runs.map(({ runId }) => runId)
    expect(await idsOf({ own: kite })).toEqual([free.runId, own.runId])
    expect(await idsOf({ own: 'kite' })).toEqual([])
    expect(await idsOf({ own: null, userId: 'kite' })).toEqual([own.runId])
  })
}

function dispatchOf(given: Partial<NewDispatch>): NewDispatch {
  return {
    userId: 'kite',
    sessionId: newRunId(),
    message: { role: 'user', parts: [{ text: 'report' }] },
    callerUid: 'an admin',
    author: { name: 'tester', uid: 'tester', isAdmin: true },
    requestId: null,
    creationKey: newRunId(),
    runs: [{ slug: 'whale', agent: 'WHALE', runId: newRunId() }],
    deadlineMs: 60_000,
    ...given,
  }
}

function describeRenewed(opened: () => World): void {
  let old: string
  let renewed: string
  let relational: Relational
  beforeEach(async () => {
    relational = opened().relational
    old = await opened().agent('kite')
  })
  const renew = async () => {
    await deleteAgent(relational, 'kite')
    renewed = await opened().agent('kite')
  }
  const end = (runId: string) => endRuns(relational, { runIds: [runId], when: 'open', status: 'completed' })

  test('runs that follow from a run of the old agent belong to the old one', async () => {
    const root = await accept(relational, { userId: 'kite', callerUid: old, sessionId: 's1' })
    const dispatch = await acceptDispatch(relational, dispatchOf({ callerUid: old }))
    expect([root.userUid, dispatch.userUid]).toEqual([old, old])
    await renew()
    const joined = await insertRun(relational, {
      ...newRun({ userId: 'kite', callerUid: old, sessionId: 's1', trigger: 'mention', slug: 'pulse' }),
      rootRunId: root.runId,
      parentRunId: root.runId,
    })
    expect(joined.run).toMatchObject({ userUid: old })
    const [ended] = await end(root.runId)
    await end(dispatch.runs[0]!.runId)
    const progress = { axonIsLive: true, synthesisMs: 1_000 }
    const { synthesis } = await advanceDispatch(relational, dispatch.goalId, progress)
    const uids = await userUids(opened())
    expect([uids[ended!.reportRunId!], uids[synthesis!]]).toEqual([old, old])
    for (const uid of [old, renewed]) {
      const { runs } = await listRuns(relational, { own: uid, limit: 9 })
      expect(runs.length > 0).toBe(uid === old)
      const { dispatches } = await listDispatches(relational, {
        own: uid,
        limit: 9,
      })
      expect(dispatches.length).toBe(uid === old ? 1 : 0)
    }
  })

  test('a request of the old agent that comes late is not the new one’s', async () => {
    await renew()
    const late = await accept(relational, { userId: 'kite', callerUid: old })
    expect(late.userUid).toBe(old)
    const dispatch = await acceptDispatch(relational, dispatchOf({ callerUid: old }))
    expect((await readDispatch(relational, dispatch.goalId))!.userUid).toBe(old)
  })

  test('it does not go on in a session of the old one, nor where that was reported', async () => {
    const first = await accept(relational, { userId: 'kite', callerUid: old, sessionId: 's1' })
    await renew()
    const again = (given: Partial<NewRun> = {}) =>
      accept(relational, { userId: 'kite', callerUid: renewed, sessionId: 's1', ...given })
    // Nor does it learn which run is at work there.
    await expect(again({ onBusy: 'reject' })).rejects.toEqual(mismatch)
    await expect(again({ slug: 'pulse' })).rejects.toEqual(mismatch)
    await end(first.runId)
    await expect(again()).rejects.toEqual(mismatch)
    await expect(again({ slug: 'axon', sessionId: 'reports-s1' })).rejects.toEqual(mismatch)
    const dispatch = dispatchOf({ callerUid: renewed, sessionId: 's1' })
    await expect(acceptDispatch(relational, dispatch)).rejects.toEqual(mismatch)
    const { rows } = await relational.query('select from platform.dispatches')
    expect(rows).toEqual([])
    expect((await again({ sessionId: 's2' })).userUid).toBe(renewed)
  })
}

function describeSessions(opened: () => World): void {
  test('users of free names go on, whoever names them, until the name is somebody’s', async () => {
    const { relational, agent } = opened()
    const ada = (callerUid: string) => accept(relational, { userId: 'ada', callerUid, sessionId: 's1' })
    const first = await ada('a bridge')
    expect((await ada('another')).userUid).toBeNull()
    const uid = await agent('ada')
    await expect(ada(uid)).rejects.toEqual(mismatch)
    // What began goes on.
    const joined = await insertRun(relational, {
      ...newRun({ userId: 'ada', sessionId: 's1', trigger: 'mention', slug: 'pulse' }),
      rootRunId: first.runId,
      parentRunId: first.runId,
    })
    expect(joined.run).toMatchObject({ userUid: null })
  })

  test('an instance of the version before is refused in its own words', async () => {
    const { relational, agent } = opened()
    await accept(relational, { userId: 'ada', sessionId: 's1' })
    const uid = await agent('ada')
    const { rows } = await relational.query<{ made: string | null; refused: string | null }>(
      `select made, refused, active from platform.accept_run($1, 'whale', 'WHALE', 'ada', 's1', 'api', $2, null, null,
         '{"parts":[{"text":"x"}]}'::json, null, false, null, null, null, $1, null, 0, null, false, true, 10, 200,
         '{}'::jsonb, false, null, null, null, 100)`,
      [newRunId(), uid],
    )
    expect(rows).toEqual([{ made: null, refused: 'user', active: null }])
  })

  test('a conversation has what its own user said', async () => {
    const world = opened()
    const uid = await world.agent('ada')
    await writeRow(world, { user: 'ada', caller: uid, session: 's1' })
    const texts = async (userUid: string) => {
      const runId = newRunId()
      await world.relational.query(
        `insert into platform.runs (run_id, root_run_id, slug, agent, user_id, session_id, status, trigger, user_uid)
         values ($1, $1, 'whale', 'WHALE', 'ada', 's1', 'completed', 'mention', $2)`,
        [runId, userUid],
      )
      const said = await readConversation(world.relational, { runId, userId: 'ada', sessionId: 's1' }, 9)
      return said.map(({ text }) => text)
    }
    expect(await texts(uid)).toEqual(['of before'])
    expect(await texts('agent_another')).toEqual([])
  })

  test('who is in a session is found by an index', async () => {
    const plan = await opened().relational.transaction(async (tx) => {
      await tx.query('set local enable_seqscan = off; set local enable_bitmapscan = off')
      const { rows } = await tx.query(
        `explain select from platform.runs r
         where platform.session_key(r.user_id, r.session_id) = platform.session_key('u', 's')
           and r.trigger <> 'mention' and coalesce(r.user_uid, '') > 'x'`,
      )
      return JSON.stringify(rows)
    })
    expect(plan).toMatch(/runs_of_session.*Index Cond: .*md5.*COALESCE/)
  })
}

/** The migrations of before the uid. */
function earlierMigrations(): string {
  const folder = mkdtempSync(join(tmpdir(), 'fl-'))
  for (const from of migrationFolders) {
    for (const name of readdirSync(from)) {
      if (Number.parseInt(name, 10) < 18) copyFileSync(join(from, name), join(folder, name))
    }
  }
  return folder
}

function describeBefore(open: () => Promise<Relational>): void {
  describe('rows of before', () => {
    let world: World
    let folder: string
    beforeAll(async () => {
      folder = earlierMigrations()
      const relational = await open()
      await migrate(relational, silentLog, [folder])
      world = worldOf(relational)
    })
    afterAll(async () => {
      await world?.relational.close()
      rmSync(folder, { recursive: true, force: true })
    })

    test('have the uid where the name was the same one’s throughout; others are of their callers', async () => {
      const { relational } = world
      const kite = await world.agent('kite')
      const ada = await world.person('ada@x')
      const earlier = new Date(Date.now() - 86_400_000)
      const gone = 'agent_01hzzzzzzzzzzzzzzzzzzzzzzz'
      const expected: Record<string, string | null> = {}
      const row = async (uid: string | null, given: Row) => {
        const runId = await writeRow(world, given)
        expected[runId] = uid
        return runId
      }
      const own = await row(kite, { user: 'kite', caller: kite, session: 's-own' })
      await row(kite, { user: 'KITE', caller: ada })
      await row(ada, { user: ada, caller: ada, at: earlier })
      await row('operator', { user: 'operator', caller: 'operator', at: earlier })
      await row(null, { user: 'free', caller: kite })
      await row(null, { user: 'kite', caller: 'not known', at: earlier })
      // The agent that had the id before owns every run that joined later, too.
      const old = await row(gone, { user: 'kite', caller: gone, at: earlier, session: 's-old' })
      await row(gone, { user: 'kite', caller: gone, root: old, trigger: 'mention', session: 's-old' })
      await row(gone, { user: 'gone', caller: gone, at: earlier, session: 's-gone' })
      const report = await row(kite, { user: 'kite', caller: '', trigger: 'report' })
      await relational.query(
        `insert into platform.run_reports (run_id, report_run_id, body) values ($1, $2, '{}')`,
        [own, report],
      )
      await relational.query(
        `insert into platform.dispatches (goal_id, user_id, session_id, message, caller_uid, run_ids, status, deadline)
         values (7, 'kite', 'd', '{}', $1, '{}', 'running', now())`,
        [kite],
      )
      await row(kite, { user: 'kite', caller: kite, goal: 7, trigger: 'dispatch', at: earlier })

      await migrate(relational, silentLog, migrationFolders)
      expect(await userUids(world)).toEqual(expected)
      expect(await userUids(world, 'dispatches')).toEqual({ 7: kite })
      // Sessions go on for their own users alone.
      const goOn = (userId: string, callerUid: string, sessionId: string) =>
        accept(relational, { userId, callerUid, sessionId })
      expect((await goOn('kite', kite, 's-own')).userUid).toBe(kite)
      await expect(goOn('kite', kite, 's-old')).rejects.toEqual(mismatch)
      await expect(goOn('gone', kite, 's-gone')).rejects.toEqual(mismatch)
    })
  })
}
