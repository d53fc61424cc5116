/** An agent key as the bearer of requests, at the run gateway and the hub, for programs that hold one key for good. */

import { afterAll, beforeAll, expect, test } from 'vitest'
import { revokeAgentKey } from '#services/access/agent-keys/agent-keys.ts'
import { updateAgent, waitUntilPublished } from '#services/access/agents/agents.ts'
import { eventually } from '../support/eventually.ts'
import { call } from '../support/gateway-call.ts'
import { message, openRunsPlatform, type RunsPlatform, talkOf } from '../support/runs-platform.ts'

let runs: RunsPlatform
beforeAll(async () => {
  runs = await openRunsPlatform()
})
afterAll(() => runs?.close())

const relational = () => runs.platform.engines.relational
const unknown = (n: number) => `svc_${n.toString(16).padStart(64, '0')}`
const hub = (path: string, key: string, body?: object) =>
  call(runs.hubUrl, path, { key, ...(body ? { body } : {}) })

async function revoke(id: string): Promise<void> {
  const { outboxId } = await revokeAgentKey(relational(), id)
  await waitUntilPublished(relational(), outboxId!)
}

test('it talks to agents and writes notes, as its agent and with its role', async () => {
  const { key, uid } = await runs.issueKey('window', { access: 'member' })
  const answer = await runs.run('atlas', 'hello', { key })
  expect([answer.status, talkOf(answer), answer.headers.get('x-user-id')]).toEqual([
    200,
    ['ATLAS: atlas heard: hello'],
    'window',
  ])
  const runId = answer.headers.get('x-run-id')
  const { rows } = await relational().query('select caller_uid from platform.runs where run_id = $1', [runId])
  expect(rows).toEqual([{ caller_uid: uid }])
  const note = await hub('/fleet_notes', key, { subject: 'From a window', body: 'Hello.' })
  expect([note.status, note.json.author]).toEqual([201, 'window'])
  // Its last use is noted, by both interfaces off the way of the answer.
  await eventually('it is noted', async () => {
    const { rows } = await relational().query<{ last_used_at: Date | null }>(
      'select last_used_at from platform.agent_keys where agent_uid = $1',
      [uid],
    )
    return rows[0]!.last_used_at
  })
})

test('a viewer reads with it, and may not write; a change of the role acts at once', async () => {
  const { key } = await runs.issueKey('reader', { access: 'viewer' })
  expect((await runs.call('GET', '/agents', { key })).status).toBe(200)
  expect((await runs.run('atlas', 'hello', { key })).json.code).toBe('forbidden')
  expect((await hub('/fleet_notes', key, { subject: 'x', body: 'y' })).json.code).toBe('forbidden')
  const { outboxId } = await updateAgent(relational(), 'reader', { access: 'member' })
  await waitUntilPublished(relational(), outboxId!)
  expect((await runs.run('atlas', 'hello', { key })).status).toBe(200)
})

test('a flood of wrong keys is limited, and does not keep the right one of its address out', async () => {
  const { key } = await runs.issueKey('busy', { access: 'member', concurrent: 100, burst: 1_000 })
  const headers = { 'x-forwarded-for': '203.0.113.7' }
  const send = (one: string) => runs.call('GET', '/agents', { key: one, headers })
  expect((await send(key)).status).toBe(200)
  // One of ten is the right key, from the same address.
  const answers = await Promise.all(
    Array.from({ length: 400 }, (_, n) => send(n % 10 === 0 ? key : unknown(n))),
  )
  const right = answers.filter((_, n) => n % 10 === 0)
  const wrong = answers.filter((_, n) => n % 10 !== 0)
  expect(new Set(right.map(({ status }) => status))).toEqual(new Set([200]))
  expect(new Set(wrong.map(({ json }) => json.code))).toEqual(new Set(['unauthorized', 'rate_limited']))
})

test('five tries of one wrong key, then 429 with the time to wait; both interfaces, unknown and malformed', async () => {
  for (const send of [
    (key: string) => hub('/goals', key),
    (key: string) => runs.call('GET', '/agents', { key }),
  ]) {
    const answers = []
    for (let n = 0; n < 6; n++) answers.push(await send(unknown(0xbad)))
    expect(answers.map(({ status }) => status)).toEqual([401, 401, 401, 401, 401, 429])
    expect(Number(answers.at(-1)!.headers.get('retry-after'))).toBeGreaterThan(0)
    expect(answers[0]!.json.code).toBe('unauthorized')
    expect(answers[0]!.text).not.toContain('svc_')
    expect((await send('svc_short')).json.code).toBe('unauthorized')
  }
})

test('revocation acts on the next request, and ends an open stream within a second', async () => {
  const { key, id } = await runs.issueKey('leaver', { access: 'member' })
  const { key: other } = await runs.issueKey('leaver')
  runs.script('nexus', () => [{ text: 'one moment' }, { hang: true }])
  const open = (one: string) =>
    runs.stream('/nexus/run', { key: one, body: { newMessage: message('wait'), streaming: true } })
  const [ended, stays] = await Promise.all([open(key), open(other)])
  await eventually('both speak', () => ended.frames.length > 0 && stays.frames.length > 0)
  await revoke(id)
  const revokedAt = performance.now()
  expect((await runs.call('GET', '/agents', { key })).json.code).toBe('unauthorized')
  expect((await hub('/goals', key)).json.code).toBe('unauthorized')
  await ended.over
  expect(performance.now() - revokedAt).toBeLessThan(1_000)
  expect(ended.end()).toBeUndefined()
  expect((await runs.call('GET', '/agents', { key: other })).status).toBe(200)
  stays.cut()
  for (const { runId } of (await runs.call('GET', '/runs', { key: other })).json as unknown as {
    runId: string
  }[])
    await runs.call('POST', `/runs/${runId}/cancel`, { key: other })
})

test('a whole answer that waits is refused to whoever lost the key meanwhile', async () => {
  const { key, id } = await runs.issueKey('waiter', { access: 'member' })
  runs.script('cipher', () => [{ hang: true }])
  const waiting = runs.run('cipher', 'wait', { key })
  await eventually('it is at work', () => runs.node.runs.some(({ app }) => app === 'cipher'))
  await revoke(id)
  const answer = await waiting
  expect([answer.status, answer.json.code]).toEqual([401, 'unauthorized'])
})

test('it is no credential of the main API, nor of its sessions, nor of the vector gateway', async () => {
  const { key } = await runs.issueKey('admin-window', { access: 'admin' })
  for (const [method, path] of [
    ['GET', '/api/v1/me'],
    ['GET', '/api/v1/agents'],
    ['POST', '/api/v1/session/token'],
  ] as const) {
    const answer = await call(runs.baseUrl, path, { method, key })
    expect([path, answer.status]).toEqual([path, 401])
  }
  expect((await call(runs.vectorUrl, '/v1/collections', { key })).status).toBe(401)
})
