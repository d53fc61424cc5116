/** Whose run is next at a node, and how many of one caller wait there, on any relational engine. */

import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { migrate } from '#engines/relational/migrate.ts'
import type { Relational } from '#engines/relational/port.ts'
import { migrationFolders } from '#services/migrations.ts'
import { insertRun, type NewRun, newRunId } from '#services/runs/state/accept.ts'
import { giveBackRun } from '#services/runs/state/claims.ts'
import { acceptDispatch, type NewDispatch } from '#services/runs/state/dispatches.ts'
import { endRuns } from '#services/runs/state/end.ts'
import { writeProbes } from '#services/runs/state/node-rows.ts'
import { readRun } from '#services/runs/state/read.ts'
import { noteTurns, pruneRuns, queueLostRuns } from '#services/runs/state/sweeps.ts'
import { silentLog } from '../../../../support/relational.ts'
import { accept, claim, newRun } from '../../../../support/run-rows.ts'

export function describeTurns(open: () => Promise<Relational>): void {
  let relational: Relational
  beforeAll(async () => {
    relational = await open()
    await migrate(relational, silentLog, migrationFolders)
  })
  afterAll(() => relational?.close())
  afterEach(() =>
    relational.query(
      `truncate platform.runs, platform.run_trees, platform.run_events, platform.run_reports, platform.run_nodes,
         platform.run_turns, platform.dispatches, platform.outbox`,
    ),
  )

  /** A run of this caller, in a session of its own unless one is given. */
  const by = (caller: string, given: Partial<NewRun> = {}) =>
    accept(relational, { callerUid: caller, userId: caller, sessionId: newRunId(), ...given })
  const many = async (caller: string, count: number) => {
    for (let n = 0; n < count; n++) await by(caller)
  }
  const end = async (runId: string) => {
    const ended = await endRuns(relational, { runIds: [runId], when: 'open', status: 'completed' })
    expect(ended).toHaveLength(1)
  }
  /** The callers whose runs a node of one place takes, one after the other. */
  const turns = async (count: number) => {
    const callers: string[] = []
    for (let n = 0; n < count; n++) {
      const [run] = await claim(relational, { concurrency: 1 })
      callers.push(run!.callerUid)
      await end(run!.runId)
    }
    return callers.join(' ')
  }
  /** As many rows as this, written without the bounds of acceptance. */
  const fill = (caller: string, count: number) =>
    relational.query(
      `insert into platform.runs (run_id, root_run_id, slug, agent, user_id, session_id, status, trigger, caller_uid)
       select $1 || n, $1 || n, 'whale', 'WHALE', $1, 's' || n, 'queued', 'api', $1 from generate_series(1, $2) n`,
      [caller, count],
    )

  describe('turns', () => {
    test('callers follow each other, and the runs of one come in their order', async () => {
      await many('ada', 5)
      await many('bob', 2)
      await by('cy')
      expect(await turns(8)).toBe('ada bob cy ada bob ada ada ada')
    })

    test('places that are free together are shared', async () => {
      await many('ada', 6)
      await many('bob', 6)
      const claimed = await claim(relational, { concurrency: 4 })
      expect(claimed.map(({ callerUid }) => callerUid).toSorted()).toEqual(['ada', 'ada', 'bob', 'bob'])
    })

    test('a place goes to the caller that holds the fewest', async () => {
      await many('ada', 6)
      const held = await claim(relational)
      expect(held).toHaveLength(4)
      await many('bob', 3)
      const next = async (ended: string) => {
        await end(ended)
        return (await claim(relational))[0]!
      }
      const first = await next(held[0]!.runId)
      expect(first.callerUid).toBe('bob')
      // It ends soon, and does not lose its place to those who hold three.
      expect((await next(first.runId)).callerUid).toBe('bob')
      expect((await next(held[1]!.runId)).callerUid).toBe('bob')
      expect((await next(held[2]!.runId)).callerUid).toBe('ada')
    })

    test('a session keeps its order, and holds up no other of its caller', async () => {
      const first = await by('ada', { sessionId: 's' })
      await by('ada', { sessionId: 's' })
      const other = await by('ada')
      const claimed = await claim(relational)
      expect(claimed.map(({ runId }) => runId)).toEqual([first.runId, other.runId])
      expect(await claim(relational)).toEqual([])
    })

    test('a run that is claimed with its acceptance is a turn, too', async () => {
      await claim(relational)
      const run = newRun({ callerUid: 'ada' })
      const atOnce = { holder: 'd', leaseMs: 30_000, concurrency: 1 }
      expect(await insertRun(relational, run, { claim: atOnce })).toMatchObject({ claimed: {} })
      await many('ada', 2)
      await by('bob')
      await end(run.runId)
      expect(await turns(3)).toBe('bob ada ada')
    })

    test('a run that was not served keeps its turn', async () => {
      await many('ada', 9)
      await many('bob', 3)
      expect(await turns(1)).toBe('ada')
      const [lost] = await claim(relational, { concurrency: 1, leaseMs: -1 })
      expect(lost!.callerUid).toBe('bob')
      expect(await queueLostRuns(relational)).toEqual(['whale'])
      const [again] = await claim(relational, { concurrency: 1 })
      expect(again!.runId).toBe(lost!.runId)
      const given = { runId: again!.runId, epoch: again!.epoch, waitMs: 0, startMs: 30_000 }
      expect(await giveBackRun(relational, { ...given, why: 'stopped' })).toBe(true)
      const [third] = await claim(relational, { concurrency: 1 })
      expect(third!.runId).toBe(lost!.runId)
      await end(third!.runId)
      expect(await turns(4)).toBe('ada bob ada bob')
    })

    test('turns of long ago are not kept', async () => {
      await many('ada', 1)
      await many('bob', 1)
      await turns(2)
      await relational.query(
        `update platform.run_turns set served_at = served_at - interval '2 days' where caller_uid = 'ada'`,
      )
      await pruneRuns(relational, 30)
      const { rows } = await relational.query('select slug, caller_uid from platform.run_turns')
      expect(rows).toEqual([{ slug: 'whale', caller_uid: 'bob' }])
    })

    test('two dispatchers at once give every turn and every place once', async () => {
      await many('ada', 8)
      await many('bob', 2)
      const both = await Promise.all(
        ['one', 'two'].map((holder) => claim(relational, { holder, concurrency: 4 })),
      )
      const callers = both.flat().map(({ callerUid }) => callerUid)
      expect(callers.toSorted()).toEqual(['ada', 'ada', 'bob', 'bob'])
      expect(new Set(both.flat().map(({ runId }) => runId)).size).toBe(4)
    })

    test('however much one caller has waiting, a claim reads no more', async () => {
      await fill('bob', 50)
      const read = async () => {
        const { rows } = await relational.query<{ 'QUERY PLAN': [{ Plan: Record<string, number> }] }>(
          `explain (analyze, buffers, format json) select * from platform.next_runs('whale', 4, clock_timestamp())`,
        )
        const plan = rows[0]!['QUERY PLAN'][0].Plan
        return plan['Shared Hit Blocks']! + plan['Shared Read Blocks']!
      }
      await fill('ada', 50)
      await read()
      const few = await read()
      await fill('zoe', 20_000)
      expect(await read()).toBeLessThan(few + 100)
    })
  })

  describe('waiting', () => {
    const refused = expect.objectContaining({
      code: 'too_many_waiting',
      statusCode: 429,
      retryAfter: expect.any(Number),
      message: expect.stringMatching(
        /^100 runs of yours wait at WHALE .*GET \/runs\?agent=WHALE&status=queued/,
      ),
    })

    test('a hundred runs of a caller wait at a node, counted exactly', async () => {
      const all = await Promise.allSettled(Array.from({ length: 120 }, () => by('ada')))
      const faults = all.flatMap((one) => (one.status === 'rejected' ? [one.reason] : []))
      expect(faults).toEqual(Array.from({ length: 20 }, () => refused))
      await by('bob')
      await by('ada', { slug: 'pulse' })
      // One that was accepted before is given as it is.
      const known = all.find((one) => one.status === 'fulfilled')!.value
      expect((await by('ada', { ...newRun(), runId: known.runId, callerUid: 'ada' })).runId).toBe(known.runId)
      // Those that run do not count, whatever user they are for.
      const claimed = await claim(relational, { concurrency: 2 })
      expect(claimed).toHaveLength(2)
      await by('ada', { userId: 'somebody else' })
      await expect(by('ada', { userId: 'somebody else' })).rejects.toEqual(refused)
    })

    test('a dispatch with one run too many is refused as a whole', async () => {
      await fill('ada', 100)
      const dispatch: NewDispatch = {
        userId: 'ada',
        sessionId: 'd1',
        message: { role: 'user', parts: [{ text: 'report' }] },
        callerUid: 'ada',
        author: { name: 'ada', uid: 'ada', isAdmin: false },
        requestId: null,
        creationKey: newRunId(),
        runs: ['pulse', 'whale'].map((slug) => ({ slug, agent: slug.toUpperCase(), runId: newRunId() })),
        deadlineMs: 60_000,
      }
      await expect(acceptDispatch(relational, dispatch)).rejects.toEqual(refused)
      const { rows } = await relational.query(
        `select from platform.runs where trigger = 'dispatch' union all select from platform.dispatches`,
      )
      expect(rows).toEqual([])
    })

    test('mentions are bounded by it, what the platform concludes is not', async () => {
      await fill('ada', 100)
      const insert = (trigger: NewRun['trigger']) =>
        insertRun(relational, newRun({ callerUid: 'ada', sessionId: newRunId(), trigger }))
      expect(await insert('mention')).toMatchObject({ run: null, refused: 'caller' })
      expect((await insert('synthesis')).run).not.toBeNull()
    })
  })

  describe('the time to start', () => {
    const counts = async (runId: string) => {
      const { rows } = await relational.query<{ counts: boolean }>(
        'select head_at is not null as counts from platform.runs where run_id = $1',
        [runId],
      )
      return rows[0]!.counts
    }
    const note = (slots: number | null, room = 1_000) =>
      noteTurns(relational, [{ slug: 'whale', slots }], room)
    const probe = (answered: boolean) => writeProbes(relational, [{ slug: 'whale', answered }])

    test('counts for those whose turn has come', async () => {
      await many('ada', 4)
      const held = await claim(relational, { concurrency: 2 })
      const ada = (
        await relational.query<{ run_id: string }>(
          `select run_id from platform.runs where status = 'queued' order by id`,
        )
      ).rows[0]!.run_id
      const bob = await by('bob')
      await note(2)
      expect([await counts(ada), await counts(bob.runId)]).toEqual([false, false])
      await end(held[0]!.runId)
      await note(2)
      expect([await counts(ada), await counts(bob.runId)]).toEqual([false, true])
      // A dispatcher that has taken on as much as it may, or does not know the node, gives no turn.
      await note(2, 0)
      expect(await counts(bob.runId)).toBe(false)
      await note(3)
      expect([await counts(ada), await counts(bob.runId)]).toEqual([true, true])
      await note(null)
      expect(await counts(bob.runId)).toBe(true)
      await note(1)
      expect([await counts(ada), await counts(bob.runId)]).toEqual([false, false])
    })

    test('counts for all while their node is away, and no more when it is back', async () => {
      await by('ada')
      await claim(relational, { concurrency: 1 })
      const first = await by('bob', { sessionId: 's' })
      const second = await by('bob', { sessionId: 's' })
      await probe(false)
      await note(1)
      // The second one waits for the first.
      expect([await counts(first.runId), await counts(second.runId)]).toEqual([true, false])
      await probe(true)
      await note(1)
      expect(await counts(first.runId)).toBe(false)
      expect((await readRun(relational, first.runId))!.status).toBe('queued')
    })

    test('counts where no file names the node', async () => {
      const run = await by('ada')
      await note(null)
      expect(await counts(run.runId)).toBe(true)
    })
  })
}
