/** Promises of the dispatcher, on any relational engine. */

import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { migrate } from '#engines/relational/migrate.ts'
import type { Relational } from '#engines/relational/port.ts'
import { migrationFolders } from '#services/migrations.ts'
import { newRunId } from '#services/runs/state/accept.ts'
import { cancelNotice } from '#services/runs/state/claims.ts'
import { acceptDispatch, cancelDispatch, readDispatch } from '#services/runs/state/dispatches.ts'
import { cancelRun } from '#services/runs/state/end.ts'
import { readEvents } from '#services/runs/state/read.ts'
import { eventually } from '../support/eventually.ts'
import { silentLog } from '../support/relational.ts'
import { endsOf, fleetEventsOf, openRunWorld, type RunWorld, reportsOf } from '../support/run-dispatchers.ts'
import { fleet, nodesAt } from '../support/run-nodes.ts'
import { echoScript, openScriptedNode, type Script, type ScriptedNode } from '../support/scripted-node.ts'

export function describeDispatcher(name: string, open: () => Promise<Relational>): void {
  let relational: Relational
  let node: ScriptedNode
  let world: RunWorld

  beforeAll(async () => {
    relational = await open()
    await migrate(relational, silentLog, migrationFolders)
  })
  afterAll(() => relational?.close())
  beforeEach(async () => {
    node = await openScriptedNode(Object.fromEntries(fleet.map((slug) => [slug, echoScript])))
    world = openRunWorld(relational, node)
  })
  afterEach(async () => {
    await world.close()
    await node.close()
    await relational.query(
      'truncate platform.runs, platform.run_trees, platform.run_events, platform.dispatches, platform.run_reports, platform.run_nodes, platform.outbox',
    )
  })

  const script = (slug: string, given: Script) => node.scripts.set(slug, given)
  const reports = () => reportsOf(relational)
  const fleetEvents = () => fleetEventsOf(relational)

  describe(`the dispatcher on ${name}`, () => {
    test('executes accepted runs, and reports it to AXON and the fleet', async () => {
      world.start()
      const { runId } = await world.accept('hello')
      const run = await world.ended(runId)
      expect(run).toMatchObject({
        status: 'completed',
        attempt: 1,
        summary: 'whale heard: hello',
        lastEventId: 1,
      })
      expect(await world.talk(runId)).toEqual(['WHALE: whale heard: hello'])
      await eventually('the report is delivered', async () => (await reports())[0]?.state === 'delivered')
      const report = node.runs.find(({ app }) => app === 'axon')
      expect(report).toMatchObject({ userId: 'ada', sessionId: 'reports-s1' })
      expect(report?.text).toContain(runId)
      expect(await fleetEvents()).toEqual([
        {
          event: 'task.completed',
          agent: 'WHALE',
          task_id: runId,
          result: expect.any(String),
          ts: expect.any(Number),
        },
      ])
      await eventually('the end is published', () =>
        world.news.some((news) => news.run_id === runId && news.status === 'completed' && news.tree_ended),
      )
      expect(world.news.filter((news) => news.run_id === runId && news.seq !== null)).toHaveLength(1)
    })

    test('runs of one lane follow each other in their order, those of other lanes do not wait', async () => {
      script('whale', async function* ({ text }) {
        const otherHasBegun = () => text !== '1' || node.runs.some((run) => run.text === 'other')
        await eventually('the other begins', otherHasBegun)
        yield { text: `heard ${text}` }
      })
      world.start()
      const runs = []
      for (const text of ['1', '2', '3', '4']) runs.push(await world.accept(text))
      const other = await world.accept('other', { sessionId: 's2' })
      for (const { runId } of [...runs, other]) await world.ended(runId)
      const lane = node.runs.filter(({ sessionId, app }) => sessionId === 's1' && app === 'whale')
      expect(lane.map(({ text }) => text)).toEqual(['1', '2', '3', '4'])
      for (const [n, run] of lane.slice(1).entries())
        expect(run.startedAt).toBeGreaterThan(lane[n]!.endedAt! - 1)
      const last = lane.at(-1)!
      expect(node.runs.find(({ sessionId }) => sessionId === 's2')!.startedAt).toBeLessThan(last.startedAt)
    })

    test('two dispatchers never give a node more runs than it takes', async () => {
      script('whale', () => [{ waitMs: 40 }, { text: 'done' }])
      const nodes = nodesAt(node.url, ['whale'], { concurrency: 3 })
      world.start({ nodes })
      world.start({ nodes })
      const runs = await Promise.all(
        Array.from({ length: 24 }, (_, n) => world.accept(`${n}`, { sessionId: `s${n}` })),
      )
      for (const { runId } of runs) expect((await world.ended(runId)).status).toBe('completed')
      expect(node.inFlightMax).toBe(3)
      expect(node.runs).toHaveLength(24)
    })

    test('many runs at once are all begun, and none twice', async () => {
      script('whale', () => [{ text: 'done' }])
      const nodes = nodesAt(node.url, ['whale'], { concurrency: 64 })
      world.start({ nodes })
      world.start({ nodes })
      const client = async (n: number) => {
        for (let k = 0; k < 12; k++) {
          const { runId } = await world.accept('go', { sessionId: `s${n}.${k}` })
          expect(await world.ended(runId)).toMatchObject({ status: 'completed', attempt: 1 })
        }
      }
      await Promise.all(Array.from({ length: 40 }, (_, n) => client(n)))
      expect(node.runs).toHaveLength(480)
    })

    test('a node that loses its connection before it said anything gets the run again, once', async () => {
      script('whale', ({ number }) => (number === 1 ? [{ cut: true }] : [{ text: 'second try' }]))
      script('pulse', () => [{ cut: true }])
      world.start()
      const first = await world.accept('go')
      expect(await world.ended(first.runId)).toMatchObject({ status: 'completed', attempt: 2 })
      const second = await world.accept('go', { slug: 'pulse' })
      expect(await world.ended(second.runId)).toMatchObject({
        status: 'failed',
        attempt: 2,
        error: { code: 'node_lost', retryable: true },
      })
    })

    test('a shown event is not repeated, not even a piece', async () => {
      script('whale', () => [{ text: 'said' }, { waitMs: 100 }, { cut: true }])
      script('pulse', () => [{ text: 'sa', partial: true }, { waitMs: 100 }, { cut: true }])
      world.start()
      for (const slug of ['whale', 'pulse']) {
        const { runId } = await world.accept('go', { slug, streaming: true })
        expect(await world.ended(runId)).toMatchObject({
          status: 'failed',
          attempt: 1,
          error: { code: 'node_lost' },
        })
      }
      expect(node.runs.filter(({ app }) => app !== 'axon')).toHaveLength(2)
    })

    test('a faulty agent fails its run, and says why', async () => {
      script('whale', () => [{ text: 'one' }, { raise: 'no fuel' }])
      script('pulse', () => [{ event: { errorCode: 'BAD', errorMessage: 'no idea' } }])
      world.start()
      const raised = await world.accept('go')
      const said = await world.accept('go', { slug: 'pulse' })
      expect((await world.ended(raised.runId)).error).toMatchObject({ code: 'agent_error', retryable: false })
      const error = (await world.ended(said.runId)).error
      expect(error).toEqual({ code: 'agent_error', message: 'no idea', retryable: false })
      const failed = (await fleetEvents()).map(({ event }) => event)
      expect(failed).toEqual(['task.failed', 'task.failed'])
    })

    test('without a node the run waits for its start, and fails then', async () => {
      await node.down()
      world.start({ times: { startMs: 600 } })
      const { runId } = await world.accept('go')
      const unknown = await world.accept('go', { slug: 'nobody' })
      expect(await world.ended(runId)).toMatchObject({
        status: 'failed',
        error: { code: 'node_unavailable' },
      })
      expect((await world.ended(unknown.runId)).error?.code).toBe('node_unavailable')
      // The reports cannot be given to AXON either, and are kept.
      await eventually('the reports are undelivered', async () =>
        (await reports()).every(({ state }) => state === 'undelivered'),
      )
      expect(await reports()).toHaveLength(2)
    })

    test('a node that comes back in time gets the run', async () => {
      await node.down()
      world.start()
      const { runId } = await world.accept('go')
      await new Promise((resolve) => setTimeout(resolve, 400))
      await node.up()
      expect(await world.ended(runId)).toMatchObject({ status: 'completed', attempt: 1 })
    })

    test('a run that takes too long ends', async () => {
      script('whale', () => [{ text: 'one' }, { hang: true }])
      world.start({ times: { runMs: 300 } })
      const { runId } = await world.accept('go')
      expect(await world.ended(runId)).toMatchObject({ status: 'failed', error: { code: 'run_timeout' } })
      await eventually('the node is left', () => node.runs[0]?.aborted)
    })

    test('cancel ends running and pending runs, with all that joined', async () => {
      script('whale', () => [{ text: '@PULSE help' }, { hang: true }])
      script('pulse', () => [{ hang: true }])
      const dispatcher = world.start()
      const { runId } = await world.accept('go')
      const waiting = await world.accept('wait')
      await eventually('both run', () => node.inFlight === 2)
      expect((await cancelRun(relational, waiting.runId)).status).toBe('canceled')
      expect((await cancelRun(relational, runId)).cancelRequestedAt).not.toBeNull()
      dispatcher.heard(cancelNotice)
      expect((await world.ended(runId)).status).toBe('canceled')
      await world.talk(runId)
      const tree = (await world.all()).filter(({ rootRunId }) => rootRunId === runId)
      expect(tree.map(({ agent, status }) => [agent, status])).toEqual([
        ['WHALE', 'canceled'],
        ['PULSE', 'canceled'],
      ])
      expect(await fleetEvents()).toEqual([])
      expect(await reports()).toHaveLength(3)
    })

    test('cancel against completion, a thousand times: one end and one report each', async () => {
      script('whale', ({ number }) => [{ text: 'one' }, { waitMs: number % 12 }, { text: 'two' }])
      const dispatcher = world.start({ nodes: nodesAt(node.url, ['whale'], { concurrency: 32 }) })
      const seen = { completed: 0, canceled: 0, failed: 0 }
      async function race(lane: number): Promise<void> {
        for (let n = 0; n < 40; n++) {
          const { runId } = await world.accept('go', { sessionId: `s${lane}` })
          await new Promise((resolve) => setTimeout(resolve, (n * 7) % 60))
          const answered = await cancelRun(relational, runId)
          dispatcher.heard(cancelNotice)
          const { status } = await world.ended(runId)
          if (answered.endedAt) expect(status).toBe(answered.status)
          seen[status as keyof typeof seen]++
        }
      }
      await Promise.all(Array.from({ length: 25 }, (_, lane) => race(lane)))
      expect(seen.completed + seen.canceled).toBe(1_000)
      expect(await reports()).toHaveLength(1_000)
      for (const statuses of endsOf(world.news).values()) expect(statuses.size).toBe(1)
      expect(await fleetEvents()).toHaveLength(seen.completed)
    }, 120_000)

    test('named agents join the conversation', async () => {
      script('whale', () => [{ text: 'I ask PULSE.' }])
      script('pulse', () => [{ text: 'Here I am, WHALE.' }])
      world.start()
      const { runId } = await world.accept('Hello whale, and @cipher')
      const talk = await world.talk(runId)
      expect(talk.toSorted()).toEqual([
        expect.stringMatching(/^CIPHER: cipher heard: You are CIPHER. user named you/),
        'PULSE: Here I am, WHALE.',
        'WHALE: I ask PULSE.',
      ])
      const events = await readEvents(relational, { rootRunId: runId, after: 0, limit: 10 })
      expect(events.map(({ seq }) => seq)).toEqual([1, 2, 3])
      const run = await world.ended(runId)
      expect(run.joined.map(({ agent }) => agent)).toEqual(['CIPHER', 'PULSE'])
      const pulse = node.runs.find(({ app }) => app === 'pulse')!
      expect(pulse.sessionId).toBe('s1')
      expect(pulse.text).toContain('user: Hello whale, and @cipher')
      expect(pulse.text).toContain('WHALE: I ask PULSE.')
    })

    test('agents that call each other for ever come to an end', async () => {
      script('nexus', () => [{ text: '@ATLAS you' }])
      script('atlas', () => [{ text: '@NEXUS you' }])
      world.start()
      const { runId } = await world.accept('go', { slug: 'nexus' })
      expect(await world.talk(runId)).toHaveLength(4)
      const runs = (await world.all()).filter(({ rootRunId }) => rootRunId === runId)
      expect(runs.at(-1)?.skipped).toEqual([{ agent: expect.any(String), reason: 'depth' }])
    })

    test('a run has bounds', async () => {
      script('whale', () => Array.from({ length: 80 }, () => ({ text: 'x'.repeat(500_000) })))
      world.start()
      const { runId } = await world.accept('go')
      expect(await world.ended(runId)).toMatchObject({ status: 'failed', error: { code: 'too_many_events' } })
    })

    test('a log that is away holds up no run', async () => {
      script('whale', () => Array.from({ length: 30 }, (_, n) => ({ text: `${n}` })))
      world.logIsAway = true
      world.start()
      const { runId } = await world.accept('go')
      expect((await world.ended(runId)).status).toBe('completed')
      expect(await world.talk(runId)).toHaveLength(30)
    })

    test('a database that is away for a moment, or whose answers are lost, costs no event and repeats none', async () => {
      script('whale', () => Array.from({ length: 40 }, (_, n) => ({ text: `${n}` })))
      script('pulse', () => [{ text: '@CIPHER look' }, { text: 'done' }])
      let statements = 0
      world.databaseFault = (text) => {
        if (!/store_run_event|end_runs|claim_runs/.test(text)) return undefined
        statements++
        if (text.includes('claim_runs')) return undefined
        return statements % 7 === 0 ? 'after' : statements % 5 === 0 ? 'before' : undefined
      }
      world.start()
      const { runId } = await world.accept('go')
      const other = await world.accept('go', { slug: 'pulse' })
      expect(await world.ended(runId)).toMatchObject({ status: 'completed', attempt: 1 })
      expect(await world.talk(runId)).toEqual(Array.from({ length: 40 }, (_, n) => `WHALE: ${n}`))
      expect((await world.talk(other.runId)).filter((line) => line.startsWith('PULSE'))).toEqual([
        'PULSE: @CIPHER look',
        'PULSE: done',
      ])
      expect((await world.ended(other.runId)).status).toBe('completed')
    })

    const dispatch = (given: { slugs?: string[]; deadlineMs?: number } = {}) => {
      const made = acceptDispatch(relational, {
        userId: 'ada',
        sessionId: 'd1',
        message: { role: 'user', parts: [{ text: 'All of you, and PULSE: report.' }] },
        callerUid: 'uid-ada',
        author: { name: 'ada', uid: 'uid-ada', isAdmin: false },
        requestId: null,
        creationKey: newRunId(),
        deadlineMs: given.deadlineMs ?? 300_000,
        runs: (given.slugs ?? ['whale', 'pulse', 'cipher']).map((slug) => ({
          slug,
          agent: slug.toUpperCase(),
          runId: newRunId(),
        })),
      })
      return made.then((done) => {
        for (const one of world.dispatchers) one.heard()
        return done
      })
    }
    const dispatched = (goalId: number) =>
      eventually('the dispatch ends', async () => {
        const found = await readDispatch(relational, goalId)
        return found?.endedAt ? found : null
      })
    const goalStatus = async (goalId: number) =>
      (
        await relational.query<{ status: string }>('select status from platform.goals where id = $1', [
          goalId,
        ])
      ).rows[0]?.status

    test('a dispatch ends with the conclusion of AXON', async () => {
      for (const slug of ['whale', 'pulse', 'cipher']) script(slug, () => [{ text: 'fine' }])
      script('axon', ({ text }) => [{ text: text.startsWith('Report') ? 'noted' : 'All is well.' }])
      world.start()
      await eventually('AXON is up', async () => node.count('GET /list-apps') > 6)
      const { goalId } = await dispatch()
      expect(await dispatched(goalId)).toMatchObject({ status: 'completed', result: 'All is well.' })
      expect(await goalStatus(goalId)).toBe('completed')
      const { runs } = (await readDispatch(relational, goalId))!
      expect(runs.map(({ agent }) => agent)).toEqual(['WHALE', 'PULSE', 'CIPHER'])
      const others = (await world.all()).filter(
        ({ trigger }) => trigger !== 'report' && trigger !== 'dispatch',
      )
      expect(others.map(({ agent, trigger }) => [agent, trigger])).toEqual([['AXON', 'synthesis']])
    })

    test('a dispatch without AXON, with one dead and one late agent, ends partial', async () => {
      script('pulse', () => [{ raise: 'broken' }])
      script('cipher', () => [{ hang: true }])
      world.start({ nodes: nodesAt(node.url, ['whale', 'pulse', 'cipher']) })
      const ended = await dispatched((await dispatch({ deadlineMs: 5_000 })).goalId)
      expect(ended).toMatchObject({ status: 'partial', result: null })
      expect(ended.runs.map(({ agent, status, error }) => [agent, status, error?.code])).toEqual([
        ['WHALE', 'completed', undefined],
        ['PULSE', 'failed', 'agent_error'],
        ['CIPHER', 'failed', 'run_timeout'],
      ])
    })

    test('a dispatch that is canceled ends with its runs', async () => {
      for (const slug of ['whale', 'pulse', 'cipher']) script(slug, () => [{ hang: true }])
      const dispatcher = world.start()
      const { goalId } = await dispatch()
      await eventually('all run', () => node.inFlight === 3)
      expect((await cancelDispatch(relational, goalId)).status).toBe('canceled')
      dispatcher.heard(cancelNotice)
      await eventually('all runs end', async () =>
        (await readDispatch(relational, goalId))!.runs.every(({ status }) => status === 'canceled'),
      )
      expect(await goalStatus(goalId)).toBe('canceled')
    })

    test('a dispatcher that stops gives back runs that showed nothing, and ends the others', async () => {
      script('whale', ({ number }) => (number === 1 ? [{ hang: true }] : [{ text: 'again' }]))
      script('pulse', () => [{ text: 'said' }, { hang: true }])
      world.start()
      const silent = await world.accept('go')
      const said = await world.accept('go', { slug: 'pulse' })
      const bothRun = async () => (await world.talkSoFar(said.runId)) === 1 && node.inFlight === 2
      await eventually('both run', bothRun)
      await world.close()
      expect((await world.ended(said.runId)).error?.code).toBe('node_lost')
      world.start()
      expect(await world.ended(silent.runId)).toMatchObject({ status: 'completed', attempt: 1 })
    })
  })
}
