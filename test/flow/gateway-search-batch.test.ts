/** Several searches in one request: answered as each would be alone, refused as a whole, and counted as one operation. */

import { afterAll, beforeAll, expect, test } from 'vitest'
import { type Client, createClient } from '#client/client.ts'
import { answers, heldBytesPerPiece } from '#runtime/http/answers.ts'
import { auditEvents } from '#topics/catalog.ts'
import { type EmbeddingsServer, openEmbeddingsServer } from '../support/embeddings-server.ts'
import { eventually } from '../support/eventually.ts'
import { call } from '../support/gateway-call.ts'
import { type GatewayPlatform, openGatewayPlatform } from '../support/gateway-platform.ts'
import { recordsOf } from '../support/log-reading.ts'
import { axisVector } from '../support/points.ts'

let embedder: EmbeddingsServer
let gateway: GatewayPlatform
let client: Client
let key: string
beforeAll(async () => {
  embedder = await openEmbeddingsServer()
  gateway = await openGatewayPlatform({ EMBEDDINGS_URL: embedder.url, EMBEDDINGS_MODEL: 'm1' })
  client = await gateway.clientOf('whale')
  key = await client.apiKey()
  await client.memory.collections.create('tea')
  const small = Array.from({ length: 8 }, (_, n) => ({
    id: `s${n}`,
    vector: axisVector(n, 0.1),
    payload: { n, even: n % 2 === 0 },
  }))
  const large = Array.from({ length: 30 }, (_, n) => ({
    id: `l${n}`,
    vector: axisVector(0, n / 100),
    payload: { text: (n % 2 === 0 ? '"' : 'é').repeat(30_000) },
  }))
  await client.memory.remember('posts', small)
  await client.memory.remember('knowledgebase', large)
  await client.memory.remember('tea', [{ id: 't1', text: 'The ferry leaves at nine' }])
}, 120_000)
afterAll(async () => {
  await gateway?.close()
  await embedder?.close()
})

const send = (path: string, body: object, headers: Record<string, string> = {}) =>
  call(gateway.vectorUrl, `/v1/vectors/${path}`, { key, body, headers })
const batch = (searches: object[], headers?: Record<string, string>) =>
  send('search/batch', { searches }, headers)

interface SearchAnswer {
  results: { id: string; vector?: number[] }[]
  took_ms: number
  warnings?: string[]
}

/** The answers of a batch, each compared with the same search alone. */
async function sameAsAlone(searches: object[]): Promise<SearchAnswer[]> {
  const together = await batch(searches)
  expect([together.status, Object.keys(together.json)]).toEqual([200, ['results']])
  expect(together.headers.get('content-type')).toBe('application/json; charset=utf-8')
  const found = together.json.results as SearchAnswer[]
  for (const { took_ms } of found) expect(Number.isInteger(took_ms)).toBe(true)
  const alone = await Promise.all(searches.map(async (one) => (await send('search', one)).json))
  const untimed = (all: object[]) => all.map((one) => ({ ...one, took_ms: 0 }))
  expect(untimed(found)).toEqual(untimed(alone))
  expect(found.map((one) => Object.keys(one))).toEqual(alone.map((one) => Object.keys(one)))
  return found
}

test('searches are answered in their order, each as it would be alone', async () => {
  const even = { must: [{ key: 'even', match: { value: true } }] }
  const found = await sameAsAlone([
    { collection: 'tea', text: 'The ferry leaves at nine', limit: 1 },
    { collection: 'posts', vector: axisVector(5), limit: 2 },
    { collection: 'posts', vector: axisVector(5), limit: 3, filter: even, with_vector: true },
    { collection: 'posts', text: 'a question', with_payload: false, score_threshold: null },
    { collection: 'posts', vector: axisVector(2), score_threshold: 0.9 },
    { collection: 'almemsha', vector: axisVector(2) },
  ])
  expect(found.map(({ results }) => results.length)).toEqual([1, 2, 3, 8, 1, 0])
  expect(found.slice(0, 3).map(({ results }) => results[0]!.id)).toEqual(['t1', 's5', 's4'])
  expect(found[2]!.results[0]!.vector).toHaveLength(1_536)
  expect(found[4]!.results[0]!.id).toBe('s2')
})

test('hits of another embedder are named in warnings of their own search', async () => {
  await send('count', { collection: 'posts' }, { 'x-request-id': 'noted' })
  const filter = { must: [{ key: 'request_id', match: { value: 'noted' } }] }
  await eventually('the note is complete', async () => {
    const { points } = await client.scroll({ collection: 'fleet_notes', filter })
    return points[0]?.payload?.status === 'resolved'
  })
  const notes = { collection: 'fleet_notes', text: 'who counted?', filter }
  const found = await sameAsAlone([{ collection: 'posts', text: 'x' }, notes, { ...notes, limit: 1 }])
  expect(found.map(({ warnings }) => warnings?.length)).toEqual([undefined, 1, 1])
})

test('large answers are sent whole, empty ones between them, within the budget of large answers', async () => {
  const collection = 'knowledgebase'
  const nothing = { must: [{ key: 'n', match: { value: -1 } }] }
  const found = await sameAsAlone([
    { collection, vector: axisVector(0), limit: 1_000, filter: nothing },
    { collection, vector: axisVector(0), limit: 1_000 },
    { collection, vector: axisVector(1), limit: 20, with_vector: true },
    { collection, vector: axisVector(0), limit: 1_000, filter: nothing },
    { collection, vector: axisVector(0), limit: 1_000, with_payload: false },
    { collection, vector: axisVector(0), limit: 500, with_payload: false, filter: nothing },
  ])
  expect(found.map(({ results }) => results.length)).toEqual([0, 30, 20, 0, 30, 0])
  await eventually('the budget is free', () => answers.heldBytes() === 0)
  const many = Array.from({ length: 20 }, () => ({ collection, vector: axisVector(0), limit: 1_000 }))
  const reading = batch(many)
  await eventually('the batch holds its part', () => answers.heldBytes() > heldBytesPerPiece)
  const results = (await reading).json.results as SearchAnswer[]
  expect(results.map((one) => one.results.length)).toEqual(new Array(20).fill(30))
  await eventually('the budget is free', () => answers.heldBytes() === 0)
})

test('all texts of a batch are embedded in one call', async () => {
  embedder.requests.length = 0
  const texts = ['first', 'second', 'third']
  const searches = texts.map((text) => ({ collection: 'posts', text }))
  expect((await batch([...searches, { collection: 'posts', vector: axisVector(1) }])).status).toBe(200)
  expect(embedder.requests.map(({ input }) => input)).toEqual([texts])
  embedder.requests.length = 0
  expect((await batch([{ collection: 'posts', vector: axisVector(1) }])).status).toBe(200)
  expect(embedder.requests).toEqual([])
})

test('a batch holds 1 to 20 searches', async () => {
  const one = { collection: 'posts', vector: axisVector(1), limit: 1 }
  for (const searches of [[], new Array(21).fill(one)]) {
    const { status, json } = await batch(searches)
    expect([status, json.code, json.errors]).toEqual([
      422,
      'validation_failed',
      [{ path: '/searches', message: expect.any(String) }],
    ])
  }
  const full = await batch(new Array(20).fill(one))
  expect([full.status, (full.json.results as object[]).length]).toEqual([200, 20])
  expect((await send('search/batch', {})).status).toBe(422)
})

test('one faulty search refuses the whole, at its place', async () => {
  const good = { collection: 'posts', vector: axisVector(1) }
  const refused = async (searches: object[]) => {
    const { status, json } = await batch(searches)
    return [status, json.code, ...((json.errors ?? []) as { path: string }[]).map(({ path }) => path)]
  }
  const faulty = (...paths: string[]) => [422, 'validation_failed', ...paths]
  const { collection, vector } = good
  expect(await refused([good, good, good, { collection, vector: [1] }])).toEqual(faulty('/searches/3/vector'))
  expect(await refused([{ collection }, good, { collection, text: '' }])).toEqual(
    faulty('/searches/0', '/searches/2/text'),
  )
  expect(await refused([good, { ...good, text: 'x' }])).toEqual(faulty('/searches/1'))
  expect(
    await refused([
      { collection, text: 'x' },
      { collection, text: 'y', limit: 0 },
    ]),
  ).toEqual(faulty('/searches/1/limit'))
  expect(await refused([{ vector }])).toEqual(faulty('/searches/0/collection'))
  expect(await refused([{ ...good, top: 3 }])).toEqual(faulty('/searches/0/top'))
  const unknown = await batch([good, { ...good, collection: 'nowhere' }])
  expect([unknown.status, unknown.json.code]).toEqual([404, 'collection_not_found'])
  expect(unknown.json.detail).toContain('"nowhere"')
})

test('a batch reflects the operations that its searches name', async () => {
  const points = (id: string) => [{ id, vector: axisVector(900), payload: {} }]
  const { operation_id: first } = await client.upsert('posts', points('after-1'))
  const { operation_id: second } = await client.upsert('tea', points('after-2'))
  const vector = axisVector(900)
  const found = await client.searchBatch([
    { collection: 'posts', vector, limit: 1, after: first },
    { collection: 'tea', vector, limit: 1, after: second },
    { collection: 'posts', vector, limit: 1, after: first },
  ])
  expect(found.map(({ results }) => results[0]!.id)).toEqual(['after-1', 'after-2', 'after-1'])
  const searches = [
    { collection: 'posts', vector },
    { collection: 'posts', vector, after: 'x' },
  ]
  await expect(client.searchBatch(searches)).rejects.toMatchObject({ code: 'invalid_operation_id' })
})

test('a batch is one operation: one audit note, one of the quota, no latency of a search', async () => {
  const { privateKeyPem } = await gateway.provision({ agentId: 'counted', quota: 20, tier: 'agent' })
  const counted = createClient({ vectorUrl: gateway.vectorUrl, agentId: 'counted', privateKeyPem })
  key = await counted.apiKey()
  const before = (await counted.stats()).search.requests
  const vector = axisVector(1)
  const of = (...collections: string[]) => collections.map((collection) => ({ collection, vector }))
  const first = await batch(of('posts', 'posts', 'posts'), { 'x-request-id': 'batch-one' })
  const second = await batch(of('posts', 'tea', 'posts'), { 'x-request-id': 'batch-two' })
  expect([first, second].map(({ headers }) => headers.get('ratelimit')?.split(';')[1])).toEqual([
    'r=19',
    'r=18',
  ])
  expect((await counted.stats()).search.requests).toBe(before)
  for (const [requestId, collection] of [
    ['batch-one', 'posts'],
    ['batch-two', 'posts,tea'],
  ]) {
    const own = await eventually(`both records of ${requestId}`, async () => {
      const records = await recordsOf(gateway.platform, auditEvents)
      const some = records.filter(({ value }) => value?.request_id === requestId)
      return some.length >= 2 ? some : undefined
    })
    expect(own.map(({ value }) => [value?.phase, value?.operation, value?.collection])).toEqual([
      ['begun', 'search', collection],
      ['ended', 'search', collection],
    ])
    expect(new Set(own.map(({ value }) => value?.event_id)).size).toBe(1)
  }
})
