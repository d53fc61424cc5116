/** A stop of the whole platform in one process: what runs has most of the ten seconds, and nothing new begins. */

import { expect, it, onTestFinished } from 'vitest'
import { eventually } from '#test/support/eventually.ts'
import { chatsOf } from '#test/support/openai-chat.ts'
import { openRunsPlatform } from '#test/support/runs-platform.ts'

/** Longer than any other worker has. */
const runMs = 4_500

it('lets a run end that takes longer than other workers have', async () => {
  const platform = await openRunsPlatform()
  let closed: Promise<void> | undefined
  const close = () => {
    closed ??= platform.close()
    return closed
  }
  onTestFinished(close)
  platform.script('whale', () => [{ text: 'begun' }, { waitMs: runMs }, { text: 'done' }])
  platform.script('pulse', () => [{ text: 'begun' }, { hang: true }])
  const fields = { sessionId: 'one' }
  for (const slug of ['whale', 'whale', 'pulse']) {
    const answer = await platform.run(slug, 'go', { fields, headers: { prefer: 'respond-async' } })
    expect(answer.status).toBe(202)
  }
  await eventually('both agents are at work', () => platform.node.inFlight === 2)
  const { runs } = platform.node
  await close()
  const whale = runs.filter(({ app }) => app === 'whale')
  // The second one of the session waits for the next start.
  expect(whale).toHaveLength(1)
  expect(whale[0]).toMatchObject({ aborted: false, endedAt: expect.any(Number) })
  expect(runs.find(({ app }) => app === 'pulse')).toMatchObject({ aborted: true })
})

it('says to chat completions that it stops, and that they are not to be sent again', async () => {
  const platform = await openRunsPlatform()
  let closed: Promise<void> | undefined
  const close = () => {
    closed ??= platform.close()
    return closed
  }
  onTestFinished(close)
  platform.script('whale', () => [{ text: 'begun' }, { hang: true }])
  const chats = chatsOf(platform)
  const body = { model: 'WHALE', messages: [{ role: 'user', content: 'go' }] }
  const whole = chats.send(body)
  const stream = await chats.stream(body)
  await eventually('both are at work', () => platform.node.inFlight === 2 && stream.content() === 'begun')
  const stopped = close()
  const { status, headers, json } = await whole
  expect([status, headers.get('x-should-retry'), json.error]).toMatchObject([
    503,
    'false',
    { code: 'shutting_down', message: expect.stringContaining(`GET /runs/${headers.get('x-run-id')}`) },
  ])
  await stream.over
  expect(stream.errors).toEqual([expect.objectContaining({ code: 'shutting_down', type: 'server_error' })])
  await stopped
})
