/** The rows of runs on any relational engine: who is accepted, claimed, stored, ended and shown, statement by statement. */

import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { migrate } from '#engines/relational/migrate.ts'
import type { Relational } from '#engines/relational/port.ts'
import { migrationFolders } from '#services/migrations.ts'
import { readReports } from '#services/runs/dispatch/node-message.ts'
import { lookNow } from '#services/runs/follow/subjects.ts'
import { acceptRun, type NewRun, runIdOf } from '#services/runs/state/accept.ts'
import { giveBackRun, renewRuns } from '#services/runs/state/claims.ts'
import { cancelRun, endHeldRuns, endRuns, type HeldEnd } from '#services/runs/state/end.ts'
import { eventRefused, markShown, storeEvent } from '#services/runs/state/events.ts'
import { ensureNodes, readNodeStates, writeProbes } from '#services/runs/state/node-rows.ts'
import { countRuns, listRuns, readEvents, readRun } from '#services/runs/state/read.ts'
import { endUnstartedRuns, pruneRuns, queueLostRuns } from '#services/runs/state/sweeps.ts'
import type { ClaimedRun } from '#services/runs/state/types.ts'
import { silentLog } from '../../../../support/relational.ts'
import { accept, claim, newRun } from '../../../../support/run-rows.ts'

export function describeRows(open: () => Promise<Relational>): void {
  let relational: Relational
  beforeAll(async () => {
    relational = await open()
    await migrate(relational, silentLog, migrationFolders)
  })
  afterAll(() => relational?.close())
  afterEach(() =>
    relational.query(
      'truncate platform.runs, platform.run_trees, platform.run_events, platform.run_reports, platform.run_nodes, platform.outbox',
    ),
  )

  const end = (runId: string) => endRuns(relational, { runIds: [runId], when: 'open', status: 'completed' })
  const reportStates = async () =>
    (await relational.query<{ state: string }>('select state from platform.run_reports')).rows.map(
      ({ state }) => state,
    )
  const outbox = async (topic: string) =>
    (
      await relational.query<{ value: Record<string, unknown> }>(
        'select value from platform.outbox where topic = $1 order by id',
        [topic],
      )
    ).rows.map(({ value }) => value)

  describe('accepting', () => {
    test('the same id is the same run', async () => {
      const run = newRun()
      const { run: made, isNew } = await acceptRun(relational, run)
      expect(isNew).toBe(true)
      expect(made).toMatchObject({ status: 'queued', rootRunId: run.runId, attempt: 0, lastEventId: 0 })
      expect(await acceptRun(relational, run)).toEqual({ run: made, isNew: false })
      expect(await outbox('runs.commands')).toEqual([{ command: 'start', run_id: run.runId, slug: 'whale' }])
    })

    test('a dispatcher at hand begins a run that waits for nothing else at once', async () => {
      const claims: ClaimedRun[] = []
      const takeAtOnce = () => ({
        claim: { holder: 'here', leaseMs: 30_000, concurrency: 2 },
        begin: (run: ClaimedRun) => void claims.push(run),
      })
      const atOnce = async (given: Partial<NewRun> = {}) =>
        (await readRun(relational, (await acceptRun(relational, newRun(given), takeAtOnce)).run.runId))!
          .status
      // Its node has no row yet, which claims lock.
      expect(await atOnce()).toBe('queued')
      await ensureNodes(relational, [{ slug: 'whale', codename: 'WHALE' }])
      // Another one waits at the node.
      expect(await atOnce({ sessionId: 's2' })).toBe('queued')
      const first = await claim(relational, { concurrency: 1 })
      await claim(relational)
      await end(first[0]!.runId)

      expect(await atOnce({ sessionId: 's3', stateDelta: { a: 1 } })).toBe('running')
      const [claimed] = claims
      expect(claimed).toMatchObject({
        attempt: 1,
        epoch: 1,
        stateDelta: { a: 1 },
        elapsedMs: 0,
        leftMs: null,
      })
      expect(await readRun(relational, claimed!.runId)).toMatchObject({ status: 'running', attempt: 1 })
      const renewal = { holder: 'here', runIds: [claimed!.runId], leaseMs: 1_000 }
      expect(await renewRuns(relational, renewal)).toMatchObject([{ epoch: 1, canceled: false }])
      expect(await storeEvent(relational, claimed!, { event: '{}', before: 0 })).toMatchObject({ seq: 1 })
      expect(await outbox('runs.commands')).not.toContainEqual(
        expect.objectContaining({ run_id: claimed!.runId }),
      )
      // Its lane is busy; then the node is full.
      expect(await atOnce({ sessionId: 's3' })).toBe('queued')
      expect(await atOnce({ sessionId: 's4' })).toBe('queued')
      expect(claims).toHaveLength(1)
    })

    test('a lane takes ten that wait, next to the one that runs', async () => {
      await accept(relational)
      await claim(relational)
      for (let n = 0; n < 10; n++) await accept(relational)
      await expect(accept(relational)).rejects.toMatchObject({ code: 'session_queue_full', statusCode: 429 })
      await accept(relational, { sessionId: 's2' })
      await accept(relational, { userId: 'bob' })
      await accept(relational, { slug: 'pulse' })
      // The platform's own do not count, and are not refused.
      await accept(relational, { trigger: 'report' })
    })

    test('of many that will not wait, one is accepted', async () => {
      const all = await Promise.allSettled(
        Array.from({ length: 20 }, () => accept(relational, { onBusy: 'reject' })),
      )
      const made = all.flatMap((one) => (one.status === 'fulfilled' ? [one.value.runId] : []))
      expect(made).toHaveLength(1)
      for (const one of all) {
        if (one.status === 'rejected') {
          expect(one.reason).toMatchObject({ code: 'session_busy', members: { activeRunId: made[0] } })
        }
      }
    })

    test('any text is kept as it came', async () => {
      const text = 'NUL \0, half \ud83d, "quotes", \\ and $1'
      await accept(relational, {
        message: { role: 'user', parts: [{ text, __proto__: 1 }] },
        stateDelta: { [text]: text },
        userId: `o'brien`,
        sessionId: '\u2028/%',
      })
      const [run] = await claim(relational)
      expect(run?.message?.parts[0]?.text).toBe(text)
      expect(run?.stateDelta).toEqual({ [text]: text })
    })

    test('ids that only look alike together have lanes of their own', async () => {
      await accept(relational, { userId: 'a/1', sessionId: 'b' })
      await accept(relational, { userId: 'a', sessionId: '1/b' })
      expect(await claim(relational)).toHaveLength(2)
    })
  })

  describe('claiming', () => {
    test('the oldest of each lane, as many as the node has slots', async () => {
      const first = await accept(relational)
      await accept(relational)
      const second = await accept(relational, { sessionId: 's2' })
      await accept(relational, { sessionId: 's3' })
      const claimed = await claim(relational, { concurrency: 2 })
      expect(claimed.map(({ runId }) => runId)).toEqual([first.runId, second.runId])
      expect(claimed[0]).toMatchObject({ status: 'running', attempt: 1, epoch: 1, leftMs: null })
      expect(await claim(relational, { concurrency: 2 })).toEqual([])
      await end(first.runId)
      expect(await claim(relational, { concurrency: 2 })).toHaveLength(1)
    })

    test('a run that is given back keeps its place, and the attempt counts only when it was lost', async () => {
      const { runId } = await accept(relational)
      await accept(relational)
      for (const [why, attempt] of [
        ['unavailable', 0],
        ['stopped', 0],
        ['lost', 1],
      ] as const) {
        const [run] = await claim(relational)
        expect(run?.runId).toBe(runId)
        const held = { runId, epoch: run!.epoch, why, waitMs: 0, startMs: 30_000 }
        expect(await giveBackRun(relational, { ...held, epoch: held.epoch - 1 })).toBe(false)
        expect(await giveBackRun(relational, held)).toBe(true)
        expect((await readRun(relational, runId))!.attempt).toBe(attempt)
      }
    })

    test('an event that was shown is not taken back', async () => {
      const { runId } = await accept(relational)
      const [run] = await claim(relational)
      expect(await markShown(relational, run!)).toBe(true)
      const back = { runId, epoch: run!.epoch, why: 'lost' as const, waitMs: 0, startMs: 30_000 }
      expect(await giveBackRun(relational, back)).toBe(false)
    })

    test('a lease that ran out lets the run be tried again, under another epoch', async () => {
      const { runId } = await accept(relational)
      const [run] = await claim(relational, { leaseMs: -1 })
      expect(await queueLostRuns(relational)).toEqual(['whale'])
      const renewal = { holder: 'd', runIds: [runId], leaseMs: 1_000 }
      expect(await renewRuns(relational, renewal)).toEqual([])
      expect(await storeEvent(relational, run!, { event: '{}', before: 0 })).toBeNull()
      const [again] = await claim(relational, { holder: 'other' })
      expect(again!.epoch).toBeGreaterThan(run!.epoch)
      expect(await storeEvent(relational, again!, { event: '{}', before: 0 })).toMatchObject({ seq: 1 })
    })
  })

  describe('events', () => {
    test('an event that is sent twice is stored once', async () => {
      const { runId } = await accept(relational)
      const [run] = await claim(relational)
      const first = { event: '{"id":"1"}', before: 0 }
      expect(await storeEvent(relational, run!, first)).toEqual({ seq: 1, goalSeq: null, canceled: false })
      expect(await storeEvent(relational, run!, first)).toBeNull()
      expect(await eventRefused(relational, run!, first)).toMatchObject({ seq: 1 })
      expect(await storeEvent(relational, run!, { event: '{"id":"2"}', before: 1 })).toMatchObject({ seq: 2 })
      const events = await readEvents(relational, { rootRunId: runId, after: 1, limit: 10 })
      expect(events).toEqual([{ seq: 2, runId, event: { id: '2' } }])
      expect(await lookNow(relational, { kind: 'tree', id: runId })).toEqual({
        ended: false,
        lastEventId: 2,
        asking: [],
      })
    })

    test('numbers that no double holds come back with their digits', async () => {
      const { runId } = await accept(relational)
      const [run] = await claim(relational)
      const event = '{"customMetadata":{"order":12345678901234567890,"huge":1e400}}'
      await storeEvent(relational, run!, { event, before: 0 })
      const [stored] = await readEvents(relational, { rootRunId: runId, after: 0, limit: 10 })
      expect(JSON.stringify(stored!.event)).toBe(event)
    })

    test('a run has room for 32 MiB', async () => {
      await accept(relational)
      const [run] = await claim(relational)
      const event = `"${'x'.repeat(12 * 1024 * 1024)}"`
      await storeEvent(relational, run!, { event, before: 0 })
      await storeEvent(relational, run!, { event, before: 1 })
      const third = { event, before: 2 }
      expect(await storeEvent(relational, run!, third)).toBeNull()
      expect(await eventRefused(relational, run!, third)).toBe('too_many')
    })
  })

  describe('the end', () => {
    test('the first one counts, and is reported once', async () => {
      const { runId } = await accept(relational)
      const [run] = await claim(relational)
      const { epoch } = run!
      const completed: HeldEnd = {
        runId,
        epoch,
        status: 'completed',
        error: null,
        summary: 'done',
        reportedBy: 'node',
      }
      const [ended] = await endHeldRuns(relational, [completed])
      const reportRunId = runIdOf('report', runId)
      expect(ended).toMatchObject({ status: 'completed', treeEnded: true, reportRunId })
      expect(await endHeldRuns(relational, [{ ...completed, status: 'failed' }])).toEqual([undefined])
      expect((await cancelRun(relational, runId)).status).toBe('completed')
      expect(await readReports(relational, [reportRunId])).toMatchObject([
        { reportId: runId, summary: 'done' },
      ])
      const [report] = await claim(relational, { slug: 'axon' })
      expect(report).toMatchObject({
        runId: reportRunId,
        sessionId: 'reports-s1',
        trigger: 'report',
        message: null,
      })
      await end(reportRunId)
      expect(await reportStates()).toEqual(['delivered'])
      expect(await outbox('fleet.events')).toHaveLength(1)
      expect(await countRuns(relational)).toMatchObject({ completed: 1, queued: 0 })
    })

    test('reports of an AXON that is away do not wait for each other', async () => {
      for (const sessionId of ['s1', 's1', 's2']) await end((await accept(relational, { sessionId })).runId)
      const given = { since: new Date('2999-01-01'), axonIsLive: false }
      expect(await endUnstartedRuns(relational, given)).toHaveLength(3)
      expect(await reportStates()).toEqual(['undelivered', 'undelivered', 'undelivered'])
    })

    test('old runs are pruned with all that belongs to them', async () => {
      const { runId } = await accept(relational)
      const [run] = await claim(relational)
      await storeEvent(relational, run!, { event: '{}', before: 0 })
      await end(runId)
      const kept = await accept(relational)
      await relational.query(
        `update platform.runs set ended_at = now() - interval '31 days' where run_id = $1`,
        [runId],
      )
      expect(await pruneRuns(relational, 30)).toBe(1)
      expect(await pruneRuns(relational, 30)).toBe(0)
      const { runs } = await listRuns(relational, { own: null, limit: 10 })
      expect(runs.map((one) => one.runId)).toEqual([kept.runId, runIdOf('report', runId)])
      const { rows } = await relational.query('select from platform.run_events')
      expect(rows).toEqual([])
    })
  })

  describe('lists', () => {
    test('page by page, the newest first, of the caller or the user', async () => {
      const ids: string[] = []
      for (let n = 0; n < 5; n++) ids.unshift((await accept(relational, { sessionId: `s${n}` })).runId)
      await accept(relational, { callerUid: 'bob', userId: 'bob' })
      const seen: string[] = []
      let before: number | undefined
      do {
        const page = await listRuns(relational, {
          own: 'uid-ada',
          limit: 2,
          ...(before ? { before } : {}),
        })
        seen.push(...page.runs.map(({ runId }) => runId))
        before = page.next
      } while (before)
      expect(seen).toEqual(ids)
      expect((await listRuns(relational, { own: 'bob', limit: 9 })).runs).toHaveLength(1)
      expect(
        (await listRuns(relational, { own: null, agent: 'WHALE', sessionId: 's1', limit: 9 })).runs,
      ).toHaveLength(2)
    })
  })

  test('lists are filtered by metadata, all of several texts together', async () => {
    const red = await accept(relational, { sessionId: 'a', metadata: { team: 'red', step: '1' } })
    const other = await accept(relational, { sessionId: 'b', metadata: { team: 'red', step: '2' } })
    await accept(relational, { sessionId: 'c' })
    const found = async (metadata: Record<string, string>) =>
      (await listRuns(relational, { own: null, limit: 10, metadata })).runs.map(({ runId }) => runId)
    expect(await found({ team: 'red' })).toEqual([other.runId, red.runId])
    expect(await found({ team: 'red', step: '1' })).toEqual([red.runId])
    expect(await found({ team: '' })).toEqual([])
    expect((await readRun(relational, red.runId))!.metadata).toEqual({ team: 'red', step: '1' })
  })

  describe('nodes', () => {
    const probe = (answered: boolean) => writeProbes(relational, [{ slug: 'whale', answered }])
    const away = (seconds: number) =>
      relational.query(`update platform.run_nodes set away_since = now() - make_interval(secs => $1)`, [
        seconds,
      ])
    const events = async () => (await outbox('fleet.events')).map(({ event }) => event)

    test('the fleet hears once that a node came, and once that it went', async () => {
      await ensureNodes(relational, [{ slug: 'whale', codename: 'WHALE' }])
      await probe(false)
      expect(await events()).toEqual([])
      for (const answered of [true, true, false]) await probe(answered)
      expect((await readNodeStates(relational))[0]).toMatchObject({
        status: 'up',
        lastSeen: expect.any(Date),
      })
      await away(20)
      await probe(false)
      expect((await readNodeStates(relational))[0]?.status).toBe('down')
      expect(await events()).toEqual(['agent.spawned'])
      await away(61)
      for (const answered of [false, false]) await probe(answered)
      expect(await events()).toEqual(['agent.spawned', 'agent.terminated'])
      await probe(true)
      expect(await events()).toEqual(['agent.spawned', 'agent.terminated', 'agent.spawned'])
      const ids = (await outbox('fleet.events')).map(({ task_id }) => task_id)
      expect(new Set(ids).size).toBe(3)
    })

    test('a node that no file names any more goes as well', async () => {
      await ensureNodes(relational, [{ slug: 'whale', codename: 'WHALE' }])
      await probe(true)
      await writeProbes(relational, [])
      await away(61)
      await writeProbes(relational, [])
      expect(await events()).toEqual(['agent.spawned', 'agent.terminated'])
    })

    test('the fleet hears of every node that goes, however many go at once', async () => {
      const all = Array.from({ length: 150 }, (_, n) => ({
        slug: `a${n}`,
        codename: `A${n}`,
        answered: true,
      }))
      await ensureNodes(relational, all)
      await writeProbes(relational, all)
      await writeProbes(relational, [])
      await away(61)
      await writeProbes(relational, [])
      const gone = (await outbox('fleet.events')).filter(({ event }) => event === 'agent.terminated')
      expect(new Set(gone.map(({ task_id }) => task_id)).size).toBe(150)
    })
  })
}
