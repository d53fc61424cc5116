/** Chat completions over several messages: sessions, questions of agents and their answers, repeated requests, and how answers end early. */

import { randomUUID } from 'node:crypto'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { revokeAgentKey } from '#services/access/agent-keys/agent-keys.ts'
import { waitUntilPublished } from '#services/access/agents/agents.ts'
import { confirmation, longRunning, requestInput, responseIn } from '../support/asking-scripts.ts'
import { eventually } from '../support/eventually.ts'
import { chatsOf } from '../support/openai-chat.ts'
import { openRunsPlatform, type RunsPlatform } from '../support/runs-platform.ts'

let runs: RunsPlatform
let chats: ReturnType<typeof chatsOf>
beforeAll(async () => {
  runs = await openRunsPlatform()
  chats = chatsOf(runs)
  runs.script('pulse', confirmation)
  runs.script('cipher', requestInput)
  runs.script('nexus', longRunning(true))
})
afterAll(() => runs?.close())

const body = (model: string, text: string, more: object = {}) => ({
  model,
  messages: [
    { role: 'system', content: 'Be brief.' },
    { role: 'user', content: 'earlier' },
    { role: 'assistant', content: 'before' },
    { role: 'user', content: text },
  ],
  ...more,
})
const say = async (model: string, text: string, session: string, more: object = {}) => {
  const { status, json, headers } = await chats.send(body(model, text, more), {
    headers: { 'x-session-id': session },
  })
  expect([status, json]).toMatchObject([200, { choices: [{ finish_reason: 'stop' }] }])
  return {
    content: json.choices[0].message.content as string,
    runId: headers.get('x-run-id') as string,
    headers,
  }
}
const show = async (runId: string) => (await runs.call('GET', `/runs/${runId}`)).json
const last = (app: string) => runs.node.runs.filter((run) => run.app === app).at(-1)!

test('the header, else `user`, names the session; then the last message alone is sent', async () => {
  const session = `talk-${randomUUID()}`
  const { headers } = await say('WHALE', 'one', session, { user: 'somebody' })
  expect(headers.get('x-session-id')).toBe(session)
  await say('WHALE', 'two', session)
  await chats.send(body('WHALE', 'three', { user: session }))
  const sent = runs.node.runs.filter(({ app }) => app === 'whale')
  expect(sent.map(({ sessionId, userId, text }) => [sessionId, userId, text])).toEqual(
    ['one', 'two', 'three'].map((text) => [session, 'key-member', text]),
  )
  // The same name is another session where another caller sends it.
  const other = await runs.keyOf('another', { access: 'member' })
  await chats.send(body('WHALE', 'mine', { user: session }), { key: other })
  expect(last('whale')).toMatchObject({ sessionId: session, userId: 'another' })
})

test('an approval: the question is the answer, and one word of the next message approves or refuses', async () => {
  for (const [word, confirmed] of [
    ['Approve', true],
    [' yes ', true],
    ['no', false],
    ['REFUSE', false],
  ] as const) {
    const session = `pay-${randomUUID()}`
    const asked = await say('PULSE', 'pay', session)
    expect(asked.content).toBe('Pay 7?\n\nApprove or refuse: pay {"amount":7}')
    expect(asked.headers.get('x-run-status')).toBe('input_required')
    expect(await show(asked.runId)).toMatchObject({ status: 'input_required' })
    const answered = await say('pulse', word, session)
    expect([answered.content, answered.runId]).toEqual([confirmed ? 'Paid.' : 'Not paid.', asked.runId])
    expect(answered.headers.get('x-run-status')).toBeNull()
    expect(responseIn(last('pulse').body)).toMatchObject({ id: 'ask-1', response: { confirmed } })
    expect((await say('PULSE', 'and now', session)).runId).not.toBe(asked.runId)
  }
})

test('questions in words, one after the other, in chunks', async () => {
  const headers = { 'x-session-id': `days-${randomUUID()}` }
  const contents: string[] = []
  const ids = new Set<string>()
  for (const text of ['book', 'Monday', 'noon']) {
    const stream = await chats.stream(body('CIPHER', text), { headers })
    await stream.over
    expect([stream.lines.at(-1), stream.errors]).toEqual(['data: [DONE]', []])
    expect(stream.chunks.at(-1).choices[0].finish_reason).toBe('stop')
    contents.push(stream.content())
    ids.add(stream.headers.get('x-run-id')!)
  }
  expect(contents).toEqual(['Which day?', 'At what time?', 'booked at noon'])
  expect(ids.size).toBe(1)
})

test('a long-running tool: its words, what it waits for, and the answer as text', async () => {
  const session = `file-${randomUUID()}`
  const asked = await say('NEXUS', 'file it', session)
  expect(asked.content).toBe('It is filed, and waits.\n\nWaits for the answer of file {"title":"x"}')
  expect((await say('NEXUS', 'it is done', session)).content).toBe('heard it is done')
})

test('an agent that joined asks in its own name, and gets the answer; another agent of the session does not', async () => {
  const session = `joined-${randomUUID()}`
  runs.script('atlas', () => [{ text: 'Let @pulse do it.' }])
  runs.script('pulse', (run) =>
    responseIn(run.body) ? confirmation(run) : confirmation({ ...run, text: 'pay' }),
  )
  const asked = await say('ATLAS', 'pay', session)
  expect(asked.content).toBe('Let @pulse do it.\n\n**PULSE:** Pay 7?\n\nApprove or refuse: pay {"amount":7}')
  expect((await say('WHALE', 'yes', session)).content).toBe('whale heard: yes')
  const answered = await say('ATLAS', 'yes', session)
  expect([answered.content, answered.runId]).toEqual(['**PULSE:** Paid.', asked.runId])
  runs.script('pulse', confirmation)
})

test('without a session a run that asks is canceled once its question was shown, whole and in chunks', async () => {
  const whole = await chats.send({ model: 'PULSE', messages: [{ role: 'user', content: 'pay' }] })
  expect(whole.json.choices[0].message.content).toMatch(/^Pay 7\?/)
  const stream = await chats.stream({ model: 'PULSE', messages: [{ role: 'user', content: 'pay' }] })
  await stream.over
  expect([stream.content(), stream.lines.at(-1)]).toEqual([expect.stringMatching(/^Pay 7\?/), 'data: [DONE]'])
  for (const { headers } of [whole, stream]) {
    expect(await show(headers.get('x-run-id')!)).toMatchObject({ status: 'canceled' })
  }
})

test('a request that comes again with its Idempotency-Key starts and answers once', async () => {
  const session = `again-${randomUUID()}`
  const twice = async (text: string) => {
    const headers = { 'x-session-id': session, 'idempotency-key': randomUUID() }
    const answers = [
      await chats.send(body('PULSE', text), { headers }),
      await chats.send(body('PULSE', text), { headers }),
    ]
    const [first = [], second] = answers.map(({ json, headers: given }) => [
      json.choices[0].message.content,
      given.get('x-run-id'),
    ])
    expect(second).toEqual(first)
    expect(answers[1]!.headers.get('idempotency-replayed')).toBe('true')
    return first
  }
  const count = runs.node.runs.filter(({ app }) => app === 'pulse').length
  const [question, runId] = await twice('pay')
  expect(question).toMatch(/^Pay 7\?/)
  expect(await twice('yes')).toEqual(['Paid.', runId])
  expect(runs.node.runs.filter(({ app }) => app === 'pulse').length).toBe(count + 2)
})

test('the run goes on when its reader leaves, in the middle of a stream and of a whole answer', async () => {
  const held = Promise.withResolvers<void>()
  runs.script('whale', async function* () {
    yield { text: 'I begin', partial: true }
    await held.promise
    yield { text: 'I begin and end.' }
  })
  const stream = await chats.stream(body('WHALE', 'go', { user: `left-${randomUUID()}` }))
  await eventually('it speaks', () => stream.content() === 'I begin')
  stream.cut()
  const leaver = new AbortController()
  const user = `left-${randomUUID()}`
  const whole = fetch(`${runs.runUrl}/openai/chat/completions`, {
    method: 'POST',
    signal: leaver.signal,
    headers: { 'content-type': 'application/json', authorization: `Bearer ${await runs.memberKey()}` },
    body: JSON.stringify(body('WHALE', 'go', { user })),
  })
  await eventually('it is at work', () => last('whale').sessionId === user)
  leaver.abort()
  await expect(whole).rejects.toThrow()
  held.resolve()
  await eventually('both have completed', async () => {
    const { json } = await runs.call('GET', '/runs?agent=whale&limit=2')
    return (json as unknown as { status: string }[]).every(({ status }) => status === 'completed')
  })
})

test('a stream whose caller loses the key ends with an error', async () => {
  const { key, id } = await runs.issueKey('chat-leaver', { access: 'member' })
  runs.script('whale', () => [{ text: 'one moment' }, { hang: true }])
  const stream = await chats.stream(body('WHALE', 'wait'), { key })
  await eventually('it speaks', () => stream.content() === 'one moment')
  const { relational } = runs.platform.engines
  const { outboxId } = await revokeAgentKey(relational, id)
  await waitUntilPublished(relational, outboxId!)
  await stream.over
  expect(stream.errors).toEqual([
    expect.objectContaining({ code: 'unauthorized', type: 'authentication_error' }),
  ])
  expect(stream.lines).not.toContain('data: [DONE]')
  const runId = stream.headers.get('x-run-id')!
  const admin = await runs.keyFor('admin')
  const canceled = await runs.call('POST', `/runs/${runId}/cancel`, { key: admin })
  expect(canceled.status).toBe(202)
})

test('a run that somebody cancels, and a full session: the status that fits, and whether to send it again', async () => {
  runs.script('whale', () => [{ hang: true }])
  const stopped = `canceled-${randomUUID()}`
  const sending = chats.send(body('WHALE', 'wait', { user: stopped }))
  await eventually('it is at work', () => last('whale').sessionId === stopped)
  const { json: found } = await runs.call('GET', `/runs?sessionId=${stopped}`)
  const [{ runId }] = found as unknown as [{ runId: string }]
  await runs.call('POST', `/runs/${runId}/cancel`)
  const canceled = await sending
  expect([canceled.status, canceled.json.error.code, canceled.headers.get('x-should-retry')]).toEqual([
    409,
    'run_canceled',
    'false',
  ])

  const user = `full-${randomUUID()}`
  const key = await runs.keyOf('crowd', { access: 'member', concurrent: 100 })
  const streams = await Promise.all(
    Array.from({ length: 9 }, () => chats.stream(body('WHALE', 'wait', { user }), { key })),
  )
  expect(streams.map(({ status }) => status)).toEqual(Array(9).fill(200))
  const send = () =>
    runs.run('whale', 'x', { key, fields: { sessionId: user }, headers: { prefer: 'respond-async' } })
  expect([(await send()).status, (await send()).status]).toEqual([202, 202])
  const full = await chats.send(body('WHALE', 'wait', { user }), { key })
  expect([full.status, full.json.error, full.headers.get('x-should-retry')]).toMatchObject([
    429,
    { type: 'rate_limit_error', code: 'session_queue_full' },
    null,
  ])
  expect(Number(full.headers.get('retry-after'))).toBeGreaterThan(0)
  for (const stream of streams) stream.cut()
})
