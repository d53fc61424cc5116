/** Texts through the gateway: stored and found by their words, refused where they are faulty, and safe while the embedder is away. */

import { expect, onTestFinished, test } from 'vitest'
import { vectorsCommands } from '#topics/catalog.ts'
import { type EmbeddingsServer, openEmbeddingsServer } from '../support/embeddings-server.ts'
import { type BareCall, call } from '../support/gateway-call.ts'
import { openGatewayPlatform } from '../support/gateway-platform.ts'
import { recordsOf } from '../support/log-reading.ts'
import { axisVector } from '../support/points.ts'

const patient = { timeout: 120_000 }

async function open(env: Record<string, string> = {}) {
  const gateway = await openGatewayPlatform(env)
  onTestFinished(() => gateway.close())
  const client = await gateway.clientOf('scout')
  const key = await client.apiKey()
  const send = (path: string, body: object, given: BareCall = {}) =>
    call(gateway.vectorUrl, `/v1/vectors/${path}`, { key, body, ...given })
  const upsert = (points: object[], given: BareCall = {}) =>
    send('upsert?wait=true', { collection: 'posts', points }, given)
  async function search(given: object) {
    const { status, json } = await send('search', { collection: 'posts', ...given })
    expect([status, json.code]).toEqual([200, undefined])
    return json as { results: { id: string; score: number; payload: unknown }[]; warnings?: string[] }
  }
  /** Ids of the records of points of agents in the log, and what made their vectors. */
  async function written() {
    const records = await recordsOf(gateway.platform, vectorsCommands)
    return records
      .filter((record) => record.key.startsWith('posts/'))
      .map(({ key, value }) => [key.slice('posts/'.length), value?.embedder])
      .sort()
  }
  return { gateway, key, client, send, upsert, search, written }
}

async function openOnEndpoint() {
  const server: EmbeddingsServer = await openEmbeddingsServer()
  onTestFinished(() => server.close())
  return { server, ...(await open({ EMBEDDINGS_URL: server.url, EMBEDDINGS_MODEL: 'm1' })) }
}

const letters = {
  emoji: '👩‍👩‍👧 went to 🇯🇵 with a 👍🏽',
  'right to left': 'المنارة في الميناء، המגדלור בנמל',
  combining: 'Cafe\u0301 and Ṩ next to S\u0323\u0307',
  han: '灯台の光は夜明けに消える',
  nul: 'before\u0000after the lighthouse',
  'odd spaces': '\ufeff a\u200bb \u202e c \n\t',
  longest: `${'lighthouse '.repeat(1_489)}aalto`,
}

test('texts of every kind are stored, come back exactly, and are found by a text', patient, async () => {
  const { gateway, key, client, send, upsert, search } = await open()
  expect(letters.longest).toHaveLength(16_384)
  const points = Object.entries(letters).map(([id, text]) => ({ id, text, payload: { kind: id } }))
  const answer = await upsert([...points, { id: 'bare', vector: axisVector(3), payload: { text: 'mine' } }])
  expect([answer.status, answer.json.status, answer.json.points]).toEqual([200, 'applied', 8])
  for (const { id, text, payload } of points) {
    expect((await client.get('posts', id)).payload).toEqual({ ...payload, text })
    const found = await search({ text, limit: 3 })
    expect(found).not.toHaveProperty('warnings')
    expect(found.results[0]).toEqual({ id, score: expect.closeTo(1, 4), payload: { ...payload, text } })
  }
  const [nearest] = (await search({ text: 'before the lighthouse', limit: 1 })).results
  expect(nearest!.id).toBe('nul')
  // The embedder of a point is nobody's business but the platform's.
  const read = await call(gateway.vectorUrl, '/v1/vectors/get?collection=posts&id=han', { key })
  expect(read.text).toContain('payload')
  expect(read.text).not.toContain('embedder')
  for (const path of ['scroll', 'search']) {
    const asked = { collection: 'posts', with_payload: false, ...(path === 'search' ? { text: 'x' } : {}) }
    expect((await send(path, asked)).text).not.toContain('embedder')
  }
})

test(
  'a point or a question with both, with none or with a faulty text is 422 at its place',
  patient,
  async () => {
    const { send, upsert, written } = await open()
    const vector = axisVector(1)
    const good = { id: 'good', text: 'a good one' }
    for (const [point, path] of [
      [{ id: 'a', vector, text: 'x' }, '/points/1'],
      [{ id: 'a' }, '/points/1'],
      [{ id: 'a', text: '' }, '/points/1/text'],
      [{ id: 'a', text: 'x'.repeat(16_385) }, '/points/1/text'],
      [{ id: 'a', text: 'x', payload: { text: 'y' } }, '/points/1/payload'],
    ] as const) {
      const { status, json } = await upsert([good, point])
      expect([status, json.code]).toEqual([422, 'validation_failed'])
      expect(json.errors).toEqual([{ path, message: expect.any(String) }])
    }
    const half = '{"collection":"posts","points":[{"id":"a","text":"x\\ud800"}]}'
    const refused = await send('upsert', {}, { body: half })
    expect([refused.status, (refused.json.errors as { path: string }[])[0]!.path]).toEqual([
      422,
      '/points/0/text',
    ])
    for (const [asked, path] of [
      [{ vector, text: 'x' }, ''],
      [{}, ''],
      [{ text: '' }, '/text'],
      [{ text: 'x'.repeat(16_385) }, '/text'],
    ] as const) {
      const { status, json } = await send('search', { collection: 'posts', ...asked })
      expect([status, json.errors]).toEqual([422, [{ path, message: expect.any(String) }]])
    }
    expect(await written()).toEqual([])
    // Equal is fine, and null in a question counts as left out.
    expect((await upsert([{ ...good, payload: { text: good.text } }])).status).toBe(200)
    expect((await send('search', { collection: 'posts', vector: null, text: 'good' })).status).toBe(200)
  },
)

test(
  'while the embedder is away nothing is written; the same request works when it is back, once',
  patient,
  async () => {
    const { server, client, upsert, search, written } = await openOnEndpoint()
    const points = [
      { id: 'text', text: 'a lighthouse' },
      { id: 'vector', vector: axisVector(1) },
    ]
    const key = { headers: { 'idempotency-key': 'k1' } }
    server.faults = [{ status: 429, retryAfter: '37' }]
    const away = await upsert(points, key)
    expect([away.status, away.json.code, away.json.retryAfter]).toEqual([503, 'embedder_unavailable', 37])
    expect(away.headers.get('retry-after')).toBe('37')
    expect(await written()).toEqual([])
    // Vectors need no embedder.
    server.faults = [{ status: 429, retryAfter: '37' }]
    expect((await upsert([{ id: 'other', vector: axisVector(2) }])).status).toBe(200)
    server.faults = []
    const first = await upsert(points, key)
    expect([first.status, first.json.points]).toEqual([200, 2])
    const asked = server.requests.length
    const again = await upsert(points, key)
    expect([again.json, again.headers.get('idempotency-replayed')]).toEqual([first.json, 'true'])
    expect(server.requests).toHaveLength(asked)
    expect(await written()).toEqual([
      ['other', null],
      ['text', 'm1'],
      ['vector', null],
    ])
    expect((await client.get('posts', 'text')).payload).toEqual({ text: 'a lighthouse' })
    const found = await search({ text: 'a lighthouse', limit: 1 })
    expect(found.results[0]).toMatchObject({ id: 'text', score: expect.closeTo(1, 4) })
    expect(found).not.toHaveProperty('warnings')
  },
)

test(
  'an endpoint that hangs is 503 in a bounded time, and one that refuses the text 422',
  patient,
  async () => {
    const { server, send, upsert, written } = await openOnEndpoint()
    server.faults = Array.from({ length: 8 }, () => ({ hang: true as const }))
    const hung = await send('search', { collection: 'posts', text: 'x' })
    expect([hung.status, hung.json.code]).toEqual([503, 'embedder_unavailable'])
    expect(hung.json.retryAfter).toBeGreaterThan(0)
    // The first is what the endpoint says to the text, the second would be the ping.
    server.faults = [{ status: 400 }]
    const refused = await upsert([{ id: 'a', text: 'x' }])
    expect([refused.status, refused.json.errors]).toEqual([
      422,
      [{ path: '/points', message: expect.stringContaining('too long') }],
    ])
    server.faults = [{ status: 401 }, { status: 401 }]
    const wrongKey = await upsert([{ id: 'a', text: 'x' }])
    expect([wrongKey.status, wrongKey.json.code]).toEqual([503, 'embedder_unavailable'])
    expect(await written()).toEqual([])
  },
)

test('a thousand of the longest texts are stored while others are answered', patient, async () => {
  const { upsert, search } = await open()
  await upsert([{ id: 'small', text: 'a small one' }])
  let over = false
  const points = Array.from({ length: 1_000 }, (_, n) => ({
    id: `p${n}`,
    text: `${n} ${'lighthouse harbour '.repeat(900)}`.slice(0, 16_384),
  }))
  // A busy machine may keep the log from taking so much in time: then it is to be repeated.
  const storing = async () => {
    const first = await upsert(points)
    return first.status === 503 ? upsert(points) : first
  }
  const writing = storing().finally(() => {
    over = true
  })
  let answered = 0
  while (!over) {
    const { results } = await search({ text: 'a small one', limit: 1 })
    expect(results[0]!.id).toBe('small')
    answered += 1
  }
  const { status, json } = await writing
  expect([[200, 202].includes(status), json.points]).toEqual([true, 1_000])
  expect(answered).toBeGreaterThan(20)
})
