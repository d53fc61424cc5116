/** What the api_server of Google ADK said when its agents asked, played again: the run asks, gets its answers, and ends. */

import { afterAll, beforeAll, expect, it } from 'vitest'
import { eventsIn, exchangeNames, playing, runsOf } from '#test/support/adk-exchanges.ts'
import { lineOf, openRunsPlatform, type RunsPlatform, type TextEvent } from '#test/support/runs-platform.ts'

let platform: RunsPlatform
let key: string

beforeAll(async () => {
  platform = await openRunsPlatform()
  key = await platform.keyOf('ada', { access: 'member' })
})
afterAll(() => platform?.close())

const said = (answer: { json: unknown }) =>
  (answer.json as TextEvent[]).map(lineOf).filter((line) => !/: $/.test(line))

it.each([
  ['confirmation-approved', 'adk_request_confirmation', 'WHALE: Paid 7.'],
  ['confirmation-refused', 'adk_request_confirmation', 'WHALE: Not paid: This tool call is rejected.'],
  ['confirmation-twice', 'adk_request_confirmation', 'WHALE: Paid 8.'],
  ['long-running', 'file', 'WHALE: It is done.'],
  ['long-running-silent', 'send', 'WHALE: It is done.'],
  ['request-input', 'adk_request_input', "WHALE: Booked: {'result': 'Monday'}."],
])('%s', async (name, tool, last) => {
  const [first, ...later] = runsOf(name)
  platform.script('whale', playing(name))
  const before = platform.node.runs.length
  const newMessage = first!.body.newMessage
  const body = { newMessage, sessionId: name }
  let answer = await platform.call('POST', '/whale/run', { key, body })
  const runId = answer.headers.get('x-run-id') as string
  let recorded = first!
  for (const next of later) {
    expect([answer.status, answer.headers.get('x-run-status')]).toEqual([200, 'input_required'])
    expect(answer.json).toHaveLength(eventsIn(recorded.answer).length)
    const asking = eventsIn(recorded.answer).filter((event) => event.longRunningToolIds?.length)
    const calls = asking.flatMap(({ content }) => content!.parts.map(({ functionCall }) => functionCall!))
    const { question } = (await platform.call('GET', `/runs/${runId}`, { key })).json
    expect(question).toMatchObject({ calls: calls.map(({ id, args }) => ({ id, name: tool, args })) })
    const { parts } = next.body.newMessage
    answer = await platform.call('POST', `/runs/${runId}/input`, { key, body: { parts } })
    recorded = next
  }
  expect([answer.status, answer.headers.get('x-run-status'), said(answer).at(-1)]).toEqual([200, null, last])
  // Byte for byte what the recorded server was sent, under this test's names.
  const sent = platform.node.runs.slice(before).filter(({ app }) => app === 'whale')
  const asSent = ({ body: one }: { body: Record<string, unknown> }) => ({
    ...one,
    appName: '',
    sessionId: '',
  })
  expect(sent.map(asSent)).toEqual(runsOf(name).map(asSent))
  const events = (await platform.call('GET', `/runs/${runId}`, { key })).json.lastEventId
  const answers = later.length
  expect(events).toBe(runsOf(name).flatMap(({ answer: one }) => eventsIn(one)).length + answers)
})

it('every recorded exchange is played', () => {
  expect(exchangeNames).toHaveLength(6)
})
