/** Answers of many at once over HTTP, and what readers of a dispatch see while its runs ask. */

import { randomUUID } from 'node:crypto'
import { afterAll, afterEach, beforeAll, expect, it } from 'vitest'
import { answerRunOperation } from '#operations/runs.ts'
import { type FollowedItem, followRunOperation } from '#operations/runs-follow.ts'
import { confirmation, requestInput, responseIn } from '#test/support/asking-scripts.ts'
import { eventually } from '#test/support/eventually.ts'
import {
  agents,
  lineOf,
  openRunsPlatform,
  type RunsPlatform,
  type TextEvent,
  talkOf,
} from '#test/support/runs-platform.ts'
import { echoScript } from '#test/support/scripted-node.ts'

let platform: RunsPlatform
/** Its agent may do nine things at once. */
let key: string

beforeAll(async () => {
  platform = await openRunsPlatform()
  key = await platform.keyOf('answers-much', { tier: 'research-agent', access: 'member' })
})
afterAll(() => platform?.close())
afterEach(() => {
  for (const slug of agents) platform.script(slug, echoScript)
})

const response = (confirmed: boolean) => ({
  parts: [{ functionResponse: { id: 'ask-1', name: 'adk_request_confirmation', response: { confirmed } } }],
})

async function asks(): Promise<string> {
  platform.script('whale', confirmation)
  const asked = await platform.run('whale', 'pay', { key })
  expect(asked.headers.get('x-run-status')).toBe('input_required')
  return asked.headers.get('x-run-id') as string
}

/** Answers that the node was given in the session of this run. */
async function givenTo(runId: string): Promise<number> {
  const { sessionId } = (await platform.call('GET', `/runs/${runId}`, { key })).json
  return platform.node.runs.filter((run) => run.sessionId === sessionId && responseIn(run.body)).length
}

const nine = (runId: string, headers: Record<string, string>) =>
  Promise.all(
    Array.from({ length: 9 }, () =>
      platform.call('POST', `/runs/${runId}/input`, { key, body: response(true), headers }),
    ),
  )

it.each<[string, Record<string, string>, number]>([
  ['wait for the events', {}, 200],
  ['do not wait', { prefer: 'respond-async' }, 202],
])('nine answers at once under one key continue one run once, where they %s', async (_, more, status) => {
  const runId = await asks()
  const answers = await nine(runId, { 'idempotency-key': randomUUID(), ...more })
  expect(answers.map((answer) => [answer.status, answer.headers.get('x-run-id')])).toEqual(
    Array(9).fill([status, runId]),
  )
  expect(answers.filter(({ headers }) => headers.get('idempotency-replayed') === 'true')).toHaveLength(8)
  if (status === 200) for (const answer of answers) expect(talkOf(answer)).toEqual(['WHALE: Paid.'])
  const shown = await eventually('it ends', async () => {
    const { json } = await platform.call('GET', `/runs/${runId}`, { key })
    return json.status === 'completed' ? json : null
  })
  expect(shown).toMatchObject({ attempt: 2, lastEventId: 5 })
  expect(await givenTo(runId)).toBe(1)
})

it('nine at once without a key: one continues the run, the others are 409', async () => {
  const runId = await asks()
  const answers = await nine(runId, {})
  const [taken, ...others] = answers.sort((one, other) => one.status - other.status)
  expect([taken!.status, talkOf(taken!)]).toEqual([200, ['WHALE: Paid.']])
  expect(others.map(({ status, json }) => [status, json.code])).toEqual(Array(8).fill([409, 'not_waiting']))
  expect(await givenTo(runId)).toBe(1)
})

it('the stream of a dispatch shows each question of its runs, stays open, and goes on', async () => {
  platform.script('whale', confirmation)
  platform.script('cipher', (run) => requestInput({ ...run, text: run.text === 'pay' ? 'book' : run.text }))
  platform.script('axon', () => [{ text: 'All is done.' }])
  const { goalId } = (await platform.call('POST', '/dispatch', { key, body: { message: 'pay' } })).json
  const path = `/dispatches/${goalId}`
  const stream = await platform.stream(`${path}/events`, { key })
  const questions = () => stream.frames.filter(({ data }) => data.author === 'gateway')
  const dispatch = async () =>
    (await platform.call('GET', path, { key })).json as { status: string; counts: Record<string, number> }
  await eventually('both ask', () => questions().length === 2)
  await eventually('the others are done', async () => (await dispatch()).counts.completed === 3)
  expect(await dispatch()).toMatchObject({
    status: 'running',
    counts: { total: 5, input_required: 2, completed: 3, running: 0, queued: 0 },
  })
  expect(questions().map(({ id }) => id)).toEqual([undefined, undefined])
  const asking = questions().map(({ data }) => data.customMetadata)
  expect(asking.map(({ dispatch: whole }) => whole)).toEqual([undefined, undefined])
  const byAgent = new Map(asking.map(({ run }) => [run.appName, run]))
  expect(byAgent.get('WHALE')).toMatchObject({
    status: 'input_required',
    goalId,
    question: { text: 'Pay 7?' },
  })
  expect(byAgent.get('CIPHER').question.text).toBe('Which day?')
  const input = (agent: string, body: object) =>
    platform.call('POST', `/runs/${byAgent.get(agent).runId}/input`, { key, body })
  await input('WHALE', response(true))
  const again = await input('CIPHER', { message: 'Monday' })
  expect(again.headers.get('x-run-status')).toBe('input_required')
  await eventually('it shows the next one', () => questions().length === 3)
  expect(questions()[2]!.data.customMetadata.run).toMatchObject({
    appName: 'CIPHER',
    attempt: 2,
    question: { text: 'At what time?' },
  })
  // A later reader sees the open question alone.
  const late = await platform.stream(`${path}/events`, { key, lastEventId: `${stream.ids().at(-1)}` })
  await eventually('it shows the open one', () => late.frames.length === 1)
  await input('CIPHER', { message: 'noon' })
  await Promise.all([stream.over, late.over])
  expect(stream.end().dispatch).toMatchObject({ status: 'completed', result: 'All is done.' })
  expect(stream.ids()).toEqual(stream.ids().map((_, n) => n + 1))
  expect(late.end().dispatch.status).toBe('completed')
  expect(questions()).toHaveLength(4)
})

it('an operator who follows a dispatch sees a question, answers it, and sees the end', async () => {
  platform.script('whale', confirmation)
  const { goalId } = (await platform.call('POST', '/dispatch', { key, body: { message: 'pay' } })).json
  const items: FollowedItem[] = []
  const context = {
    platform: platform.platform,
    output: { item() {}, progress() {} },
    signal: new AbortController().signal,
    actor: { kind: 'command_line', id: 'tester' },
  } as const
  const item = async (one: FollowedItem) => {
    items.push(one)
    const [, id] = (one.kind === 'status' && /^asks as (run_\w+)$/.exec(one.status)) || []
    if (id) await answerRunOperation.run(context, { id, approve: true })
  }
  const output = { item, progress() {} }
  const followed = await followRunOperation.run({ ...context, output }, { id: String(goalId), keep: true })
  expect(followed).toMatchObject({ dispatch: { goalId, status: 'completed' } })
  expect(items.filter(({ kind }) => kind === 'status')).toEqual([
    { kind: 'status', agent: 'WHALE', status: expect.stringContaining('asks as run_'), error: 'Pay 7?' },
  ])
  const said = followed.events.map(({ event }) => lineOf(event as TextEvent))
  expect(said).toContain('WHALE: Paid.')
})

it('the client gives questions of a dispatch, and loses and repeats nothing for them', async () => {
  platform.script('whale', confirmation)
  const client = await platform.clientOf('asks-all', { runUrl: platform.runUrl, hubUrl: platform.hubUrl })
  const { goalId } = await client.runs.dispatch('pay')
  const stream = await client.runs.dispatches.stream(goalId)
  const authors: string[] = []
  for await (const event of stream) {
    authors.push(event.author)
    if (event.author !== 'gateway') continue
    const { runId, status, question } = event.customMetadata!.run as Awaited<
      ReturnType<typeof client.runs.get>
    >
    expect([status, question?.text]).toEqual(['input_required', 'Pay 7?'])
    // The stream goes on behind the last event that has a number.
    expect(stream.lastEventId).toBe(authors.length - 1)
    await client.runs.input(runId, response(true).parts)
  }
  expect(stream.result?.status).toBe('completed')
  expect(authors.filter((author) => author === 'gateway')).toHaveLength(1)
  expect(authors.filter((author) => author === 'WHALE')).toHaveLength(4)
  await client.close()
})
