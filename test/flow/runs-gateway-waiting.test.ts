/** Many runs of one caller at a busy node: more are refused at every interface, and others are not. */

import { afterAll, beforeAll, expect, it } from 'vitest'
import { eventually } from '#test/support/eventually.ts'
import { call } from '#test/support/gateway-call.ts'
import { accept } from '#test/support/run-rows.ts'
import { message, openRunsPlatform, type RunsPlatform } from '#test/support/runs-platform.ts'

let platform: RunsPlatform
beforeAll(async () => {
  platform = await openRunsPlatform()
  const { url } = platform.node
  platform.writeNodes({ whale: { url, concurrency: 1 }, pulse: { url }, axon: { url } })
})
afterAll(() => platform?.close())

it('the hundred and first that waits is refused, whatever its user, session and interface', async () => {
  const { uid } = await platform.issueKey('crowd')
  const key = await platform.idTokenOf('crowd')
  platform.script('whale', () => [{ hang: true }])
  const headers = { prefer: 'respond-async' }
  await eventually('the nodes file is read', async () => {
    return (await platform.run('cipher', 'x', { key, headers })).status === 404
  })
  expect((await platform.run('whale', 'first', { key, headers })).status).toBe(202)
  await eventually('it runs', () => platform.node.inFlight === 1)
  const { relational } = platform.platform.engines
  for (let n = 0; n < 100; n++) await accept(relational, { callerUid: uid, sessionId: `s${n}` })

  const newMessage = message('one more')
  const requests: [string, string, object][] = [
    [platform.runUrl, '/whale/run', { newMessage, userId: 'a user of it' }],
    [platform.baseUrl, '/api/v1/runs', { appName: 'WHALE', newMessage }],
    [platform.runUrl, '/dispatch', { message: 'one more' }],
    [platform.baseUrl, '/api/v1/dispatches', { message: 'one more' }],
  ]
  for (const [url, path, body] of requests) {
    const { status, json, headers: answered } = await call(url, path, { method: 'POST', key, body })
    expect([path, status, json.code]).toEqual([path, 429, 'too_many_waiting'])
    expect(json.detail).toMatch(/^100 runs of yours wait at WHALE already/)
    expect(Number(answered.get('retry-after'))).toBeGreaterThan(0)
  }
  const goals = await relational.query('select from platform.goals')
  expect(goals.rows).toEqual([])

  expect((await platform.run('pulse', 'elsewhere', { key })).status).toBe(200)
  const other = await platform.run('whale', 'of another', { headers })
  expect([other.status, other.json.status]).toEqual([202, 'queued'])
})
