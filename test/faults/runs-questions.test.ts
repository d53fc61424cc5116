/** Dispatchers that are killed around questions of agents: nothing is asked twice, no answer is lost, and none counts twice. */

import type { ChildProcess } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { beforeEach, expect, test } from 'vitest'
import { answerRun } from '#services/runs/state/questions.ts'
import { readEvents, readRun } from '#services/runs/state/read.ts'
import type { Part, Run } from '#services/runs/state/types.ts'
import { confirmation, responseIn } from '../support/asking-scripts.ts'
import { openDispatcherFaults, times } from '../support/dispatcher-faults.ts'
import { eventually } from '../support/eventually.ts'
import { fleetEventsOf, type RunWorld, reportsOf } from '../support/run-dispatchers.ts'
import type { ScriptedNode, ScriptedRun, Step } from '../support/scripted-node.ts'

const faults = openDispatcherFaults()
const { script, startChild, kill } = faults
let world: RunWorld
let node: ScriptedNode
beforeEach(async () => {
  ;({ world, node } = faults)
  await faults.relational.query('truncate platform.notes')
})

/** Only ends a hang. */
const patienceMs = 120_000
const approval: Part[] = [
  { functionResponse: { id: 'ask-1', name: 'adk_request_confirmation', response: { confirmed: true } } },
]
const answer = (runId: string, answerId: string = randomUUID()) =>
  answerRun(faults.relational, { runId, message: { role: 'user', parts: approval }, answerId })
const asks = (runId: string): Promise<Run> =>
  eventually(
    `${runId} asks`,
    async () => {
      const run = await readRun(faults.relational, runId)
      return run?.status === 'input_required' ? run : null
    },
    patienceMs,
  )
const isAnswer = ({ app, body }: ScriptedRun) => app === 'whale' && responseIn(body) !== undefined
const answersAt = (sessionId: string) =>
  node.runs.filter((run) => isAnswer(run) && run.sessionId === sessionId).length
const eventsOf = (rootRunId: string) => readEvents(faults.relational, { rootRunId, after: 0, limit: 100 })

async function expectOnce(runId: string, authors: string[]): Promise<void> {
  const events = await eventsOf(runId)
  expect(events.map(({ seq }) => seq)).toEqual(authors.map((_, n) => n + 1))
  expect(events.map(({ event }) => event.author)).toEqual(authors)
  const fired = (await fleetEventsOf(faults.relational)).filter(({ task_id: id }) =>
    String(id).startsWith(runId),
  )
  expect(fired.map(({ event, task_id: id }) => [event, id])).toEqual([
    ['task.input_required', `${runId}.1`],
    ['task.completed', runId],
  ])
  const { rows } = await faults.relational.query('select from platform.notes where body like $1', [
    `%${runId}%`,
  ])
  expect(rows).toHaveLength(1)
}

test('killed while a run asks: the answer goes to another one, once', async () => {
  script('whale', confirmation)
  const child = startChild('first')
  const { runId } = await world.accept('pay')
  await asks(runId)
  await kill(child)
  await answer(runId)
  expect((await readRun(faults.relational, runId))!.status).toBe('queued')
  world.start({ holder: 'second', times })
  expect(await world.ended(runId)).toMatchObject({ status: 'completed', attempt: 2, summary: 'Paid.' })
  expect(answersAt('s1')).toBe(1)
  await expectOnce(runId, ['WHALE', 'WHALE', 'WHALE', 'user', 'WHALE'])
  await eventually('one report', async () => (await reportsOf(faults.relational)).length === 1)
})

test('killed once it has sent the answer, of which nothing was shown: another one sends it again', async () => {
  script('whale', (run) =>
    isAnswer(run) && node.runs.filter(isAnswer).length === 1 ? [{ hang: true }] : confirmation(run),
  )
  const child = startChild('first')
  const { runId } = await world.accept('pay')
  await asks(runId)
  await answer(runId, 'answer-1')
  await eventually('the node has it', () => node.runs.some(isAnswer))
  await kill(child)
  // Its caller did not hear of the acceptance, and repeats it.
  await answer(runId, 'answer-1')
  world.start({ holder: 'second', times })
  expect(await world.ended(runId)).toMatchObject({ status: 'completed', attempt: 3, summary: 'Paid.' })
  await expectOnce(runId, ['WHALE', 'WHALE', 'WHALE', 'user', 'WHALE'])
})

test('killed when an event of the answer was shown: the run fails, and the node does not get it again', async () => {
  script('whale', (run) => (isAnswer(run) ? [{ text: 'Paying.' }, { hang: true }] : confirmation(run)))
  const child = startChild('first')
  const { runId } = await world.accept('pay')
  await asks(runId)
  await answer(runId)
  await eventually('an event is kept', async () => (await eventsOf(runId)).length === 5)
  await kill(child)
  world.start({ holder: 'second', times })
  expect(await world.ended(runId)).toMatchObject({ status: 'failed', error: { code: 'node_lost' } })
  expect(answersAt('s1')).toBe(1)
})

test('over 60 runs that ask, with four kills, every run ends once with its answer', async () => {
  script('whale', async function* (run) {
    if (run.number % 3 === 0) yield { waitMs: 20 }
    yield* confirmation(run) as Iterable<Step>
  })
  let children: ChildProcess[] = ['a', 'b'].map((holder) =>
    startChild(holder, undefined, { concurrency: 16 }),
  )
  const runs = await Promise.all(
    Array.from({ length: 60 }, (_, n) =>
      world.accept('pay', { sessionId: `s${n}`, callerUid: `caller ${n % 7}` }),
    ),
  )
  const outcomes = Promise.all(
    runs.map(async ({ runId }) => {
      await eventually(
        `${runId} asks or ends`,
        async () => {
          const run = (await readRun(faults.relational, runId))!
          return run.status === 'input_required' || run.endedAt !== null
        },
        patienceMs,
      )
      const run = (await readRun(faults.relational, runId))!
      if (!run.endedAt) await answer(runId)
      return world.ended(runId)
    }),
  )
  for (let n = 1; n <= 4; n++) {
    const before = node.runs.length
    await eventually('work goes on', () => node.runs.length >= before + 8, patienceMs)
    const [victim, ...others] = children as [ChildProcess, ...ChildProcess[]]
    await kill(victim)
    children = [...others, startChild(`c${n}`, undefined, { concurrency: 16 })]
  }
  const ended = await outcomes
  for (const { runId, status, error, sessionId } of ended) {
    const events = await eventsOf(runId)
    expect(events.map(({ seq }) => seq)).toEqual(events.map((_, n) => n + 1))
    const answers = events.filter(({ event }) => event.author === 'user').length
    if (status === 'completed') expect([answers, events.length]).toEqual([1, 5])
    // One of whose attempt an event was shown is not begun again.
    else expect([status, error?.code, answersAt(sessionId) <= 1]).toEqual(['failed', 'node_lost', true])
  }
  expect(ended.filter(({ status }) => status === 'completed').length).toBeGreaterThan(30)
  await eventually(
    'one report of each',
    async () => (await reportsOf(faults.relational)).length === runs.length,
    patienceMs,
  )
})
