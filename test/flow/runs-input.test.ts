/** Questions of agents over HTTP: answers that end with a question, streams that stay open, answers of people and programs. */

import { afterAll, beforeAll, expect, it } from 'vitest'
import { confirmation, requestInput } from '#test/support/asking-scripts.ts'
import { eventually } from '#test/support/eventually.ts'
import { openRunsPlatform, type RunsPlatform, talkOf } from '#test/support/runs-platform.ts'

let platform: RunsPlatform

beforeAll(async () => {
  platform = await openRunsPlatform()
  platform.script('whale', confirmation)
  platform.script('cipher', requestInput)
})
afterAll(() => platform?.close())

const idOf = (answer: { headers: Headers }) => answer.headers.get('x-run-id') as string
const input = (runId: string, body: object, given: object = {}) =>
  platform.call('POST', `/runs/${runId}/input`, { body, ...given })
const response = (confirmed: boolean) => ({
  parts: [{ functionResponse: { id: 'ask-1', name: 'adk_request_confirmation', response: { confirmed } } }],
})
const shown = async (runId: string) => (await platform.call('GET', `/runs/${runId}`)).json

it('the answer ends with the question, and that of the input has the events since then', async () => {
  const asked = await platform.run('whale', 'pay')
  expect([asked.status, asked.headers.get('x-run-status')]).toEqual([200, 'input_required'])
  expect(asked.json).toHaveLength(3)
  const runId = idOf(asked)
  expect(await shown(runId)).toMatchObject({
    status: 'input_required',
    endedAt: null,
    question: { calls: [{ id: 'ask-1', args: { toolConfirmation: { hint: 'Pay 7?' } } }], text: 'Pay 7?' },
  })
  const listed = (await platform.call('GET', '/runs?status=input_required')).json as unknown as {
    runId: string
  }[]
  expect(listed.map((run) => run.runId)).toEqual([runId])
  const answer = await input(runId, response(true))
  expect([answer.status, answer.headers.get('x-run-status'), talkOf(answer)]).toEqual([
    200,
    null,
    ['WHALE: Paid.'],
  ])
  expect(idOf(answer)).toBe(runId)
  expect(await shown(runId)).toMatchObject({ status: 'completed', question: null, attempt: 2 })
  const late = await input(runId, response(true))
  expect([late.status, late.json.code]).toEqual([409, 'not_waiting'])
})

it('streams end with a frame without an id; those of the run stay open and go on', async () => {
  const body = { newMessage: { parts: [{ text: 'book' }] } }
  const stream = await platform.stream('/cipher/run', { method: 'POST', body })
  await stream.over
  const last = stream.frames.at(-1)!
  expect([last.id, last.data.author]).toEqual([undefined, 'gateway'])
  expect(stream.frames.map(({ id }) => id)).toEqual(['1', undefined])
  const { runId, status } = last.data.customMetadata.run
  expect(status).toBe('input_required')
  const open = await platform.stream(`/runs/${runId}/events`)
  await eventually('it shows the question', () => open.frames.length === 2)
  const next = await input(runId, { message: 'Monday' })
  expect(next.headers.get('x-run-status')).toBe('input_required')
  const end = await input(runId, { message: 'noon' })
  expect(talkOf(end)).toEqual(['CIPHER: booked at noon'])
  await open.over
  const authors = open.frames.map(({ data }) => data.author)
  expect(authors).toEqual(['CIPHER', 'gateway', 'user', 'CIPHER', 'gateway', 'user', 'CIPHER', 'gateway'])
  expect(open.frames.map(({ id }) => id)).toEqual(['1', undefined, '2', '3', undefined, '4', '5', '6'])
})

it('without waiting, under a key once, by nobody who may not', async () => {
  const runId = idOf(await platform.run('whale', 'pay'))
  const headers = { 'idempotency-key': `k-${runId}` }
  const viewer = await input(runId, response(true), { key: await platform.keyFor('viewer') })
  expect(viewer.status).toBe(403)
  const other = await input(runId, response(true), {
    key: await platform.keyOf('stranger', { access: 'member' }),
  })
  expect([other.status, other.json.code]).toEqual([404, 'run_not_found'])
  const accepted = await input(runId, response(true), { headers: { ...headers, prefer: 'respond-async' } })
  expect([accepted.status, accepted.json.runId]).toEqual([202, runId])
  const again = await input(runId, response(true), { headers })
  expect([again.headers.get('idempotency-replayed'), talkOf(again)]).toEqual(['true', ['WHALE: Paid.']])
  const conflict = await input(runId, response(false), { headers })
  expect([conflict.status, conflict.json.code]).toEqual([409, 'idempotency_conflict'])
})

it.each([
  [{}, '/parts'],
  [{ message: 'x', parts: [{ text: 'x' }] }, '/message'],
  [{ message: ' ' }, '/message'],
  [{ message: 'a\0' }, '/message/parts'],
  [
    { parts: [{ functionResponse: { id: 'nothing', name: 'x', response: {} } }] },
    '/parts/0/functionResponse/id',
  ],
])('%j is refused, and the fault is named', async (body, path) => {
  const runId = idOf(await platform.run('whale', 'pay'))
  const answer = await input(runId, body)
  const { errors } = answer.json as unknown as { errors: { path: string }[] }
  expect([answer.status, errors[0]?.path]).toEqual([422, path])
  await platform.call('POST', `/runs/${runId}/cancel`)
})

it('an agent that joined asks: the frame holds its run, which is answered', async () => {
  platform.script('pulse', () => [{ text: '@whale pay' }])
  platform.script('whale', (run) =>
    confirmation({ ...run, text: run.text.includes('@whale pay') ? 'pay' : run.text }),
  )
  const stream = await platform.stream('/pulse/run', {
    method: 'POST',
    body: { newMessage: { parts: [{ text: 'hello' }] } },
  })
  await stream.over
  const { run } = stream.frames.at(-1)!.data.customMetadata
  expect(run).toMatchObject({ appName: 'WHALE', status: 'input_required', trigger: 'mention' })
  expect(talkOf(await input(run.runId, response(true)))).toEqual(['WHALE: Paid.'])
  platform.script('whale', confirmation)
})

it('the client ends at a question, and goes on with its answer', async () => {
  const client = await platform.clientOf('asker', { runUrl: platform.runUrl })
  const { run } = await client.runs.run('cipher', 'book')
  expect(run).toMatchObject({ status: 'input_required', question: { text: 'Which day?' } })
  const second = await client.runs.input(run.runId, 'Monday')
  expect(second.run.question?.text).toBe('At what time?')
  const stream = await client.runs.inputStream(run.runId, [{ text: 'noon' }])
  const texts = []
  for await (const event of stream) texts.push(event.content?.parts[0]?.text)
  expect([stream.result?.status, texts.at(-1)]).toEqual(['completed', 'booked at noon'])
  await client.close()
})
