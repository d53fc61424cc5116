/** The gateway's answers while the log, the vector engine or Postgres is away. */

import { afterAll, afterEach, beforeAll, expect, test } from 'vitest'
import { createClient } from '#client/client.ts'
import { eventually } from '../support/eventually.ts'
import { type AwayGateway, openAwayGateway } from '../support/gateway-away.ts'
import { type BareCall, call } from '../support/gateway-call.ts'
import { axisVector } from '../support/points.ts'

let gateway: AwayGateway
let key: string
beforeAll(async () => {
  gateway = await openAwayGateway()
  const privateKeyPem = await gateway.provision('whale')
  key = await createClient({ vectorUrl: gateway.url, agentId: 'whale', privateKeyPem }).apiKey()
  // The key is cached from here on.
  await send('/v1/vectors/count?collection=posts')
})
afterEach(() => gateway.away.clear())
afterAll(() => gateway.close())

const send = (path: string, given: BareCall = {}) => call(gateway.url, path, { key, ...given })
const vector = axisVector(1)
const upsert = (query = '') =>
  send(`/v1/vectors/upsert${query}`, { body: { collection: 'posts', points: [{ id: 'a', vector }] } })
const remove = () =>
  send('/v1/vectors/delete', { method: 'DELETE', body: { collection: 'posts', ids: ['a'] } })
const reads: [string, () => ReturnType<typeof send>][] = [
  ['search', () => send('/v1/vectors/search', { body: { collection: 'posts', vector } })],
  [
    'search/batch',
    () => send('/v1/vectors/search/batch', { body: { searches: [{ collection: 'posts', vector }] } }),
  ],
  ['scroll', () => send('/v1/vectors/scroll', { body: { collection: 'posts' } })],
  ['count', () => send('/v1/vectors/count?collection=posts')],
  ['get', () => send('/v1/vectors/get?collection=posts&ids=a')],
]
const searchPg = () => send('/v1/vectors/search-pg', { body: { table: 'embeddings', vector } })
const handshake = () => send('/v1/auth/handshake', { body: { agent_id: 'whale', nonce: 'ab'.repeat(16) } })

function expectAway(answer: Awaited<ReturnType<typeof send>>, code: string): void {
  expect([answer.status, answer.json.code]).toEqual([503, code])
  expect(answer.json.retryAfter).toBeGreaterThan(0)
  expect(answer.headers.get('retry-after')).toMatch(/^\d+$/)
  expect(answer.text).not.toContain('ECONNREFUSED')
}

test('log away: every metered operation is 503 log_unavailable', async () => {
  gateway.away.add('log')
  for (const ask of [upsert, remove, ...reads.map(([, read]) => read)]) {
    expectAway(await ask(), 'log_unavailable')
  }
})

test('vector engine away: upsert and delete are still accepted, reads are 503', async () => {
  gateway.away.add('vectors')
  expect((await upsert()).status).toBe(202)
  expect((await remove()).status).toBe(202)
  for (const [, read] of reads) expectAway(await read(), 'vector_engine_unavailable')
})

test('Postgres away: cached keys go on, others and handshakes are 503', async () => {
  gateway.away.add('relational')
  for (const [, read] of reads) expect((await read()).status).toBe(200)
  expect((await upsert()).status).toBe(202)
  expectAway(await handshake(), 'relational_engine_unavailable')
  const unknown = await send('/v1/vectors/count?collection=posts', { key: `vk_live_${'B'.repeat(43)}` })
  expectAway(unknown, 'relational_engine_unavailable')
})

test('the relational mirror away: search-pg is 503 and comes back by itself, all else goes on', async () => {
  gateway.away.add('mirror')
  expectAway(await searchPg(), 'relational_engine_unavailable')
  for (const [, read] of reads) expect((await read()).status).toBe(200)
  expect((await upsert()).status).toBe(202)
  gateway.away.clear()
  await eventually('search-pg', async () => (await searchPg()).status === 200)
  gateway.away.add('vectors').add('relational')
  expect((await searchPg()).status).toBe(200)
})

test('all goes on by itself when the engines are back', async () => {
  gateway.away.add('log').add('vectors').add('relational')
  expect((await upsert()).status).toBe(503)
  gateway.away.clear()
  await eventually('accepted again', async () => (await upsert()).status === 202)
  for (const [name, read] of reads) await eventually(name, async () => (await read()).status === 200)
  expect((await handshake()).status).toBe(200)
})

test('health says which engine is away, without hanging on it', async () => {
  const passes = async () => (await call(gateway.url, '/v1/health')).status === 200
  await eventually('a passing probe', passes)
  gateway.away.add('vectors')
  const failing = await eventually('a failing probe', async () => {
    const health = await call(gateway.url, '/v1/health')
    return health.status === 503 ? health : undefined
  })
  expect(failing.json).toMatchObject({
    status: 'fail',
    components: {
      vector_engine: { status: 'fail' },
      relational_engine: { status: 'pass' },
      event_log: { status: 'pass' },
    },
  })
  gateway.away.clear()
  await eventually('a passing probe', passes)
})

// No writer runs with this gateway: accepted writes stay unapplied.
test('a write not applied in ten seconds is 202 for a writer that waits and 503 for a reader', async () => {
  const accepted = await upsert()
  const id = accepted.json.operation_id as string
  const begun = performance.now()
  const [waiting, reading] = await Promise.all([
    upsert('?wait=true'),
    send(`/v1/vectors/count?collection=posts&after=${id}`),
  ])
  expect(performance.now() - begun).toBeGreaterThan(9_000)
  expect([waiting.status, waiting.json.status]).toEqual([202, 'accepted'])
  expect([reading.status, reading.json.code, reading.json.retryAfter]).toEqual([503, 'not_yet_applied', 1])
  expect((await send(`/v1/operations/${id}`)).json).toEqual({ operation_id: id, status: 'accepted' })
})

test('an agent with more than 20,000 unapplied points has to wait, another one does not', async () => {
  const privateKeyPem = await gateway.provision('hasty')
  const hasty = await createClient({ vectorUrl: gateway.url, agentId: 'hasty', privateKeyPem }).apiKey()
  const ids = Array.from({ length: 1_000 }, (_, n) => `gone-${n}`)
  const many = () =>
    call(gateway.url, '/v1/vectors/delete', {
      key: hasty,
      method: 'DELETE',
      body: { collection: 'posts', ids },
    })
  for (let n = 0; n < 21; n++) expect((await many()).status).toBe(202)
  const refused = await many()
  expect([refused.status, refused.json.code]).toEqual([429, 'backlog_full'])
  expect(refused.json.retryAfter).toBeGreaterThan(0)
  expect((await remove()).status).toBe(202)
})
