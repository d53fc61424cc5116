/** Questions of agents and their answers, on any relational engine. */

import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { answerParts } from '#client/answer-parts.ts'
import { migrate } from '#engines/relational/migrate.ts'
import type { Relational } from '#engines/relational/port.ts'
import { migrationFolders } from '#services/migrations.ts'
import { newRunId } from '#services/runs/state/accept.ts'
import { acceptDispatch, readDispatch } from '#services/runs/state/dispatches.ts'
import { cancelRun } from '#services/runs/state/end.ts'
import { answeredBy, answerRun, askingIn } from '#services/runs/state/questions.ts'
import { readEvents, readRun } from '#services/runs/state/read.ts'
import type { Part, Run } from '#services/runs/state/types.ts'
import { confirmation, longRunning, requestInput, twoConfirmations } from '../support/asking-scripts.ts'
import { eventually } from '../support/eventually.ts'
import { silentLog } from '../support/relational.ts'
import { fleetEventsOf, openRunWorld, type RunWorld, reportsOf } from '../support/run-dispatchers.ts'
import { fleet, nodesAt } from '../support/run-nodes.ts'
import { echoScript, openScriptedNode, type ScriptedNode } from '../support/scripted-node.ts'

export function describeQuestions(name: string, open: () => Promise<Relational>): void {
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
    node.scripts.set('whale', confirmation)
    world = openRunWorld(relational, node)
  })
  afterEach(async () => {
    await world.close()
    await node.close()
    await relational.query(
      `truncate platform.runs, platform.run_trees, platform.run_events, platform.run_reports, platform.run_nodes,
         platform.dispatches, platform.notes, platform.outbox`,
    )
  })

  const asks = (runId: string): Promise<Run> =>
    eventually(`run ${runId} asks`, async () => {
      const run = await readRun(relational, runId)
      return run?.status === 'input_required' ? run : null
    })
  const answer = async (runId: string, parts: Part[], answerId = newRunId()) => {
    const answered = await answerRun(relational, { runId, message: { role: 'user', parts }, answerId })
    for (const dispatcher of world.dispatchers) dispatcher.heard(answered.run.slug)
    return answered
  }
  const confirmed = (is: boolean): Part[] => [
    { functionResponse: { id: 'ask-1', name: 'adk_request_confirmation', response: { confirmed: is } } },
  ]

  describe(`questions on ${name}`, () => {
    test('a confirmation holds the run until it is answered, and the same run goes on at its node', async () => {
      world.start()
      const { runId } = await world.accept('pay', { stateDelta: { a: 1 } })
      const asked = await asks(runId)
      expect(asked).toMatchObject({
        attempt: 1,
        endedAt: null,
        question: { calls: [{ id: 'ask-1', name: 'adk_request_confirmation' }], text: 'Pay 7?' },
      })
      expect(asked.expiresAt!.getTime() - asked.askedAt!.getTime()).toBe(86_400_000)
      expect(await reportsOf(relational)).toEqual([])
      expect(await fleetEventsOf(relational)).toMatchObject([
        {
          event: 'task.input_required',
          agent: 'WHALE',
          task_id: `${runId}.1`,
          result: expect.stringContaining('ask-1'),
        },
      ])
      await answer(runId, answerParts(asked.question!, ' Yes '))
      expect(await world.ended(runId)).toMatchObject({ status: 'completed', attempt: 2, summary: 'Paid.' })
      const events = await readEvents(relational, { rootRunId: runId, after: 0, limit: 10 })
      expect(events.map(({ event }) => event.author)).toEqual(['WHALE', 'WHALE', 'WHALE', 'user', 'WHALE'])
      expect(events[3]!.event.content?.parts).toEqual(confirmed(true))
      const calls = node.runs.filter(({ app }) => app === 'whale')
      expect(calls.map(({ sessionId, body }) => [sessionId, body.stateDelta])).toEqual([
        ['s1', { a: 1 }],
        ['s1', undefined],
      ])
      await eventually('one report', async () => (await reportsOf(relational)).length === 1)
      expect((await fleetEventsOf(relational)).map(({ event }) => event)).toEqual([
        'task.input_required',
        'task.completed',
      ])
    })

    test('of two approvals one may be given later: the run asks again for the other', async () => {
      node.scripts.set('whale', twoConfirmations)
      world.start()
      const { runId } = await world.accept('pay both')
      const approved = (id: string): Part[] => [
        { functionResponse: { id, name: 'adk_request_confirmation', response: { confirmed: true } } },
      ]
      expect((await asks(runId)).question!.calls.map(({ id }) => id)).toEqual(['ask-1', 'ask-2'])
      await answer(runId, approved('ask-2'))
      const again = await asks(runId)
      expect([again.attempt, again.question]).toMatchObject([
        2,
        { calls: [{ id: 'ask-1' }], text: 'answered ask-2' },
      ])
      await expect(answer(runId, approved('ask-2'))).rejects.toMatchObject({ code: 'validation_failed' })
      await answer(runId, approved('ask-1'))
      expect(await world.ended(runId)).toMatchObject({
        status: 'completed',
        attempt: 3,
        summary: 'answered ask-1',
      })
      // A text answers them all.
      const other = await world.accept('pay both')
      await asks(other.runId)
      await answer(other.runId, [{ text: 'never mind' }])
      expect(await world.ended(other.runId)).toMatchObject({
        status: 'completed',
        summary: 'heard never mind',
      })
    })

    test('the next message of a chat finds the run that asks: of its session, agent and caller, and only while it asks', async () => {
      node.scripts.set('atlas', () => [{ text: 'Let @whale do it.' }])
      node.scripts.set('whale', ({ body, ...run }) =>
        confirmation({ ...run, body, text: run.text.includes('named you') ? 'pay' : run.text }),
      )
      world.start()
      const { runId, userId, sessionId, callerUid } = await world.accept('pay')
      const other = await world.accept('pay', { sessionId: 'other' })
      const root = await world.accept('go', { slug: 'atlas', agent: 'ATLAS', sessionId: 'joined' })
      for (const id of [runId, other.runId]) await asks(id)
      const joined = await eventually('the run that joined asks', async () => {
        const { rows } = await relational.query<{ id: string }>(
          `select run_id as id from platform.runs where root_run_id = $1 and run_id <> $1 and status = 'input_required'`,
          [root.runId],
        )
        return rows[0]?.id
      })
      const find = (given: object = {}) =>
        askingIn(relational, { userId, sessionId, slug: 'whale', callerUid, slugs: fleet, ...given })
      expect(await find()).toEqual({ runId, question: expect.objectContaining({ text: 'Pay 7?' }) })
      expect(await find({ sessionId: 'other' })).toMatchObject({ runId: other.runId })
      expect(await find({ sessionId: 'joined', slug: 'atlas' })).toMatchObject({ runId: joined })
      for (const elsewhere of [
        { sessionId: 'joined' },
        { slug: 'atlas' },
        { userId: 'nobody' },
        { callerUid: 'somebody else' },
        { slugs: ['atlas'] },
      ])
        expect(await find(elsewhere)).toBeNull()
      const answerId = newRunId()
      expect(await answeredBy(relational, { sessionId, answerId })).toBeNull()
      await answer(runId, confirmed(true), answerId)
      expect(await find()).toBeNull()
      expect(await answeredBy(relational, { sessionId, answerId })).toBe(runId)
      await cancelRun(relational, other.runId)
      expect(await find({ sessionId: 'other' })).toBeNull()
    })

    test('a note names run and agent, and never the question', async () => {
      world.start()
      const { runId } = await world.accept('pay')
      await asks(runId)
      const { rows } = await relational.query<{ subject: string; body: string }>(
        'select subject, body from platform.notes',
      )
      expect(rows).toEqual([
        { subject: 'WHALE waits for an answer of uid-ada', body: expect.stringContaining(runId) },
      ])
      expect(JSON.stringify(rows)).not.toContain('Pay 7')
    })

    test.each([
      [true, 'It is filed, and waits.'],
      [false, ''],
    ])('a long-running tool asks, with its first response (%s) or without', async (withResponse, text) => {
      node.scripts.set('whale', longRunning(withResponse))
      world.start()
      const { runId } = await world.accept('file it')
      expect((await asks(runId)).question).toEqual({
        calls: [{ id: 'long-1', name: 'file', args: { title: 'x' } }],
        text,
      })
      await answer(runId, [{ functionResponse: { id: 'long-1', name: 'file', response: { ok: 1 } } }])
      expect((await world.ended(runId)).summary).toBe('done: {"ok":1}')
    })

    test('asks twice, also in pieces, and text is an answer', async () => {
      node.scripts.set('whale', requestInput)
      world.start()
      const { runId } = await world.accept('book')
      expect((await asks(runId)).question!.text).toBe('Which day?')
      await answer(runId, [{ text: 'Monday' }])
      const again = await eventually('it asks again', async () => {
        const run = await readRun(relational, runId)
        return run?.status === 'input_required' && run.attempt === 2 ? run : null
      })
      expect(again.question!.text).toBe('At what time?')
      await answer(runId, [{ text: 'noon' }])
      expect(await world.ended(runId)).toMatchObject({
        status: 'completed',
        attempt: 3,
        summary: 'booked at noon',
      })
      const asked = (await fleetEventsOf(relational)).filter(({ event }) => event === 'task.input_required')
      expect(asked.map(({ task_id: id }) => id)).toEqual([`${runId}.1`, `${runId}.2`])
    })

    test('its lane waits, its place at the node is free', async () => {
      const nodes = nodesAt(node.url, fleet, { concurrency: 1 })
      world.start({ nodes })
      const { runId } = await world.accept('pay')
      await asks(runId)
      const behind = await world.accept('behind')
      const other = await world.accept('other', { sessionId: 's2' })
      expect((await world.ended(other.runId)).summary).toBe('heard other')
      expect((await readRun(relational, behind.runId))!.status).toBe('queued')
      await answer(runId, confirmed(false))
      expect((await world.ended(runId)).summary).toBe('Not paid.')
      expect((await world.ended(behind.runId)).summary).toBe('heard behind')
    })

    test('an answer that is given nine times at once counts once; others are refused', async () => {
      world.start()
      const { runId } = await world.accept('pay')
      await asks(runId)
      const answers = await Promise.all(
        Array.from({ length: 9 }, () => answer(runId, confirmed(true), 'one')),
      )
      expect(new Set(answers.map(({ after }) => after)).size).toBe(1)
      await world.ended(runId)
      expect(node.runs.filter(({ app }) => app === 'whale')).toHaveLength(2)
      await expect(answer(runId, confirmed(true))).rejects.toMatchObject({ code: 'not_waiting' })
    })

    test('a response to another call is refused, and names those that ask', async () => {
      world.start()
      const { runId } = await world.accept('pay')
      await asks(runId)
      const wrong = answer(runId, [{ functionResponse: { id: 'other', name: 'x', response: {} } }])
      await expect(wrong).rejects.toMatchObject({
        code: 'validation_failed',
        errors: [{ message: expect.stringContaining('ask-1') }],
      })
      expect((await readRun(relational, runId))!.status).toBe('input_required')
    })

    test('expires, by the clock of the database', async () => {
      world.start({ inputWaitS: 1 })
      const { runId } = await world.accept('pay')
      expect(await world.ended(runId)).toMatchObject({ status: 'failed', error: { code: 'input_expired' } })
      await expect(answer(runId, confirmed(true))).rejects.toMatchObject({ code: 'not_waiting' })
    })

    test('is canceled while it asks, and its lane goes on; a newer message may interrupt it', async () => {
      world.start()
      const first = await world.accept('pay')
      await asks(first.runId)
      const next = await world.accept('next')
      expect((await cancelRun(relational, first.runId)).status).toBe('canceled')
      expect((await world.ended(next.runId)).status).toBe('completed')
      const second = await world.accept('pay')
      await asks(second.runId)
      const taking = await world.accept('instead', { onBusy: 'interrupt' })
      expect((await world.ended(taking.runId)).summary).toBe('heard instead')
      expect(await world.ended(second.runId)).toMatchObject({
        status: 'canceled',
        error: { code: 'interrupted' },
      })
    })

    test('nothing is lost when its dispatcher ends, before the answer and after it', async () => {
      world.start()
      const { runId } = await world.accept('pay')
      await asks(runId)
      await world.close()
      await answer(runId, confirmed(true))
      expect((await readRun(relational, runId))!.status).toBe('queued')
      world.start({ holder: 'later' })
      expect(await world.ended(runId)).toMatchObject({ status: 'completed', attempt: 2 })
    })

    test('tries of a start count from zero behind an answer', async () => {
      let cuts = 0
      node.scripts.set('whale', (run) => {
        if (run.number === 1) return [{ cut: true }]
        return run.number === 3 && cuts++ === 0 ? [{ cut: true }] : confirmation(run)
      })
      world.start()
      const { runId } = await world.accept('pay')
      expect((await asks(runId)).attempt).toBe(2)
      await answer(runId, confirmed(true))
      expect(await world.ended(runId)).toMatchObject({ status: 'completed', attempt: 4 })
    })

    test('in a dispatch, which is not over meanwhile; its deadline ends it', async () => {
      world.start()
      const given = {
        message: { role: 'user', parts: [{ text: 'pay' }] },
        userId: 'ada',
        callerUid: 'uid-ada',
        requestId: null,
        author: { name: 'ada', uid: 'uid-ada', isAdmin: false },
      }
      const start = (sessionId: string, deadlineMs: number) =>
        acceptDispatch(relational, {
          ...given,
          sessionId,
          creationKey: newRunId(),
          deadlineMs,
          runs: [{ slug: 'whale', agent: 'WHALE', runId: newRunId() }],
        })
      const first = await start('d1', 60_000)
      const asked = first.runs[0]!.runId
      for (const dispatcher of world.dispatchers) dispatcher.heard('whale')
      await asks(asked)
      expect((await readDispatch(relational, first.goalId))!.status).toBe('running')
      await answer(asked, confirmed(true))
      const ended = async (goalId: number) => {
        const dispatch = (await readDispatch(relational, goalId))!
        return dispatch.endedAt ? dispatch : null
      }
      const done = await eventually('the dispatch ends', () => ended(first.goalId))
      expect(done.status).toBe('completed')
      const second = await start('d2', 1_500)
      for (const dispatcher of world.dispatchers) dispatcher.heard('whale')
      const late = await eventually('its deadline ends it', () => ended(second.goalId))
      expect([late.status, late.runs[0]!.error?.code]).toEqual(['failed', 'run_timeout'])
    })

    test('after a mention', async () => {
      node.scripts.set('pulse', () => [{ text: '@whale pay' }])
      node.scripts.set('whale', (run) =>
        confirmation({ ...run, text: run.text.includes('@whale pay') ? 'pay' : run.text }),
      )
      world.start()
      const root = await world.accept('hello', { slug: 'pulse' })
      const { joined } = await world.ended(root.runId)
      const child = await asks(joined[0]!.runId)
      expect(child).toMatchObject({ trigger: 'mention', depth: 1 })
      await answer(child.runId, confirmed(true))
      expect((await world.ended(child.runId)).summary).toBe('Paid.')
    })
  })
}
