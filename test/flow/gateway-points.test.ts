/** Points through the gateway: written, read back, searched, counted, scrolled and deleted. */

import { afterAll, beforeAll, expect, test } from 'vitest'
import type { Client } from '#client/client.ts'
import { call } from '../support/gateway-call.ts'
import { type GatewayPlatform, openGatewayPlatform } from '../support/gateway-platform.ts'
import { axisVector } from '../support/points.ts'

let gateway: GatewayPlatform
let client: Client
let key: string
beforeAll(async () => {
  gateway = await openGatewayPlatform()
  client = await gateway.clientOf('whale')
  key = await client.apiKey()
})
afterAll(() => gateway.close())

const bare = (path: string, given: Parameters<typeof call>[2] = {}) =>
  call(gateway.vectorUrl, path, { key, ...given })

test('an agent proves who it is, upserts points and finds them again', async () => {
  const points = [0, 10, 20].map((axis) => ({ id: `p${axis}`, vector: axisVector(axis), payload: { axis } }))
  const accepted = await client.upsert('knowledgebase', points)
  expect(accepted).toMatchObject({ status: 'accepted', collection: 'knowledgebase', points: 3 })
  const found = await client.search({
    collection: 'knowledgebase',
    vector: axisVector(10, 0.1),
    limit: 2,
    after: accepted.operation_id,
  })
  expect(found.results).toHaveLength(2)
  expect(found.results[0]).toEqual({ id: 'p10', score: expect.any(Number), payload: { axis: 10 } })
  expect(found.records_scanned).toBe(3)
  expect(Number.isInteger(found.took_ms)).toBe(true)
  const [exact] = (
    await client.search({
      collection: 'knowledgebase',
      vector: axisVector(20),
      limit: 10,
      scoreThreshold: 0.5,
      withPayload: false,
      withVector: true,
    })
  ).results
  expect(exact).toMatchObject({ id: 'p20', score: expect.closeTo(1) })
  expect(exact?.payload).toBeUndefined()
  expect(exact?.vector).toHaveLength(1536)
})

test('limit is 10 by default', async () => {
  const points = Array.from({ length: 12 }, (_, n) => ({
    id: `l${n}`,
    vector: axisVector(n),
    payload: { set: 'limit' },
  }))
  await client.upsert('posts', points, { wait: true })
  const filter = { must: [{ key: 'set', match: { value: 'limit' } }] }
  const found = await client.search({ collection: 'posts', vector: axisVector(1), filter })
  expect([found.results.length, found.records_scanned]).toEqual([10, 12])
})

test('wait=true answers 200 applied, and the point is there by then', async () => {
  const written = await bare('/v1/vectors/upsert?wait=true', {
    body: { collection: 'posts', points: [{ id: 'w1', vector: axisVector(3), payload: {} }] },
  })
  expect([written.status, written.json.status, written.json.points]).toEqual([200, 'applied', 1])
  expect((await client.get('posts', 'w1')).vector[3]).toBeCloseTo(1)
  const deleted = await bare('/v1/vectors/delete?wait=true', {
    method: 'DELETE',
    body: { collection: 'posts', ids: ['w1', 'never-there'] },
  })
  expect([deleted.status, deleted.json.status, deleted.json.points]).toEqual([200, 'applied', 2])
  await expect(client.get('posts', 'w1')).rejects.toMatchObject({ code: 'point_not_found', status: 404 })
})

test('an upsert without wait is 202, and its operation ends as applied', async () => {
  const accepted = await bare('/v1/vectors/upsert?wait=false', {
    body: { collection: 'posts', points: [{ id: 'o1', vector: axisVector(3) }] },
  })
  expect([accepted.status, accepted.json.status]).toEqual([202, 'accepted'])
  const id = accepted.json.operation_id as string
  expect(id).toMatch(/^[A-Za-z0-9_-]+$/)
  expect(await client.waitFor(id)).toEqual({ operation_id: id, status: 'applied' })
})

test('ids and payloads come back exactly, odd ones, too', async () => {
  const payloadText =
    '{"__proto__":{"x":1},"constructor":null,"":0,"a.b":[1.5,true,null],"nul":"\\u0000","sql":"x\' OR 1=1"}'
  const ids = ['__proto__', 'constructor', 'a/b?c=d&e#f', "x' OR 1=1", 'ünïcode 👍', '  spaces ', '%00', '+']
  const points = ids.map(
    (id) => `{"id":${JSON.stringify(id)},"vector":[${axisVector(9)}],"payload":${payloadText}}`,
  )
  const written = await bare('/v1/vectors/upsert?wait=true', {
    body: `{"collection":"almemsha","points":[${points}]}`,
  })
  expect(written.status).toBe(200)
  for (const id of ids) {
    const found = await bare(`/v1/vectors/get?collection=almemsha&id=${encodeURIComponent(id)}`)
    expect(found.json.id).toBe(id)
    expect(found.text).toContain('"__proto__":{"x":1}')
    expect(found.json.payload).toEqual(JSON.parse(payloadText))
  }
  const many = await client.getMany('almemsha', [...ids, 'absent', ids[0] as string])
  expect(many.points.map((point) => point.id)).toEqual(ids)
  expect(many.missing).toEqual(['absent'])
})

test('a thousand of the longest ids fit into one get, and a long filter into one count', async () => {
  const ids = Array.from({ length: 1_000 }, (_, n) => `${n}`.padStart(512, 'x'))
  expect((await client.getMany('almemsha', ids)).missing).toEqual(ids)
  const must = Array.from({ length: 100 }, (_, n) => ({
    key: `${n}`.padStart(512, 'k'),
    match: { value: n },
  }))
  expect(await client.count('almemsha', { filter: { must } })).toBe(0)
})

test('a get and a count answer the same whether their request is an address or a body', async () => {
  await client.upsert(
    'posts',
    ['x', 'y'].map((id) => ({ id: `same-${id}`, vector: axisVector(3), payload: { set: 'same' } })),
    { wait: true },
  )
  const ids = ['same-y', 'same-x', 'absent', 'same-y']
  const inAddress = await bare(`/v1/vectors/get?collection=posts&${ids.map((id) => `ids=${id}`).join('&')}`)
  const inBody = await bare('/v1/vectors/get', { body: { collection: 'posts', ids } })
  expect([inBody.status, inBody.json]).toEqual([200, inAddress.json])
  const filter = { must: [{ key: 'set', match: { value: 'same' } }] }
  const counted = await bare('/v1/vectors/count', { body: { collection: 'posts', filter } })
  expect([counted.status, counted.json]).toEqual([200, { collection: 'posts', count: 2 }])
  const query = `collection=posts&filter=${encodeURIComponent(JSON.stringify(filter))}`
  expect((await bare(`/v1/vectors/count?${query}`)).json).toEqual(counted.json)
})

test('filters compare by value and type', async () => {
  const payloads = [
    { n: 1.5, s: "x' OR 1=1", tags: ['red', 'blue'], deep: { flag: true } },
    { n: '1.5', s: 'x', tags: ['blue'], deep: { flag: false } },
    { n: 1, s: 'true', tags: 'red', deep: [{ flag: true }] },
  ]
  await client.upsert(
    'posts',
    payloads.map((payload, n) => ({
      id: `f${n}`,
      vector: axisVector(n),
      payload: { ...payload, set: 'filter' },
    })),
    { wait: true },
  )
  const idsWhere = async (key: string, value: string | number | boolean) => {
    const must = [
      { key: 'set', match: { value: 'filter' } },
      { key, match: { value } },
    ]
    const page = await client.scroll({ collection: 'posts', filter: { must } })
    expect(await client.count('posts', { filter: { must } })).toBe(page.points.length)
    return page.points.map((point) => point.id)
  }
  expect(await idsWhere('n', 1.5)).toEqual(['f0'])
  expect(await idsWhere('n', '1.5')).toEqual(['f1'])
  expect(await idsWhere('s', "x' OR 1=1")).toEqual(['f0'])
  expect((await idsWhere('tags', 'red')).sort()).toEqual(['f0', 'f2'])
  expect(await idsWhere('deep.flag', true)).toEqual(['f0'])
  expect(await idsWhere('__proto__', 'x')).toEqual([])
})

test('scroll gives every point once', async () => {
  const points = Array.from({ length: 25 }, (_, n) => ({
    id: `s${n}`,
    vector: axisVector(n),
    payload: { set: 'scroll' },
  }))
  await client.upsert('posts', points, { wait: true })
  const filter = { must: [{ key: 'set', match: { value: 'scroll' } }] }
  const seen: string[] = []
  for await (const point of client.scrollAll({ collection: 'posts', filter, limit: 7 })) seen.push(point.id)
  expect(seen.sort()).toEqual(points.map((point) => point.id).sort())
  const page = await bare('/v1/vectors/scroll', {
    body: { collection: 'posts', filter, limit: 25, with_payload: false, with_vector: true },
  })
  expect(page.json.next_offset).toBeNull()
  expect(Object.keys((page.json.points as object[])[0] as object).sort()).toEqual(['id', 'vector'])
})

test('an id twice in one upsert: the last wins', async () => {
  const point = (n: number) => ({ id: 'twice', vector: axisVector(n), payload: { n } })
  await client.upsert('posts', [point(1), point(2), point(3)], { wait: true })
  expect((await client.get('posts', 'twice')).payload).toEqual({ n: 3 })
})

test('a body of megabytes is applied whole', async () => {
  const points = Array.from({ length: 400 }, (_, n) => ({
    id: `big${n}`,
    vector: axisVector(n, 0.123456789),
    payload: { set: 'big', pad: 'x'.repeat(1_000) },
  }))
  const accepted = await client.upsert('posts', points, { wait: true })
  expect(accepted).toMatchObject({ status: 'applied', points: 400 })
  expect(await client.count('posts', { filter: { must: [{ key: 'set', match: { value: 'big' } }] } })).toBe(
    400,
  )
})

test('the same Idempotency-Key and body give the first answer again, another body is a conflict', async () => {
  const body = (n: number) => ({ collection: 'posts', points: [{ id: 'once', vector: axisVector(n) }] })
  const send = (n: number, idempotencyKey = 'k-1') =>
    bare('/v1/vectors/upsert', { body: body(n), headers: { 'idempotency-key': idempotencyKey } })
  const first = await send(1)
  const again = await send(1)
  expect([again.status, again.text]).toEqual([first.status, first.text])
  const conflict = await send(2)
  expect([conflict.status, conflict.json.code]).toEqual([409, 'idempotency_conflict'])
  expect((await send(1, 'k-2')).json.operation_id).not.toBe(first.json.operation_id)
  expect((await send(1, 'a b')).status).toBe(422)
})

test('an operation id that is not of this platform is 400 wherever it is given', async () => {
  for (const path of ['/v1/operations/forged', '/v1/vectors/count?collection=posts&after=forged']) {
    const refused = await bare(path)
    expect([refused.status, refused.json.code]).toEqual([400, 'invalid_operation_id'])
  }
  const search = await bare('/v1/vectors/search', {
    body: { collection: 'posts', vector: axisVector(1), after: 'x' },
  })
  expect([search.status, search.json.code]).toEqual([400, 'invalid_operation_id'])
})

test('null is the same as absent where a field may be left out', async () => {
  const collection = 'almemsha'
  await client.upsert(collection, [{ id: 'nothing', vector: axisVector(3), payload: {} }], { wait: true })
  const same = async (path: string, body: object, nulls: object) => {
    const absent = await bare(path, { body: { collection, ...body } })
    const given = await bare(path, { body: { collection, ...body, ...nulls } })
    expect([absent.status, given.status]).toEqual([200, 200])
    expect({ ...given.json, took_ms: 0 }).toEqual({ ...absent.json, took_ms: 0 })
  }
  await same('/v1/vectors/scroll', {}, { offset: null, filter: null })
  await same('/v1/vectors/search', { vector: [...axisVector(3)] }, { filter: null, score_threshold: null })
  await same('/v1/vectors/count', {}, { filter: null })
  const counted = await bare(`/v1/vectors/count?collection=${collection}&filter=null`)
  expect([counted.status, counted.json.count]).toEqual([200, await client.count(collection)])
})

test('texts become vectors in the form of OpenAI', async () => {
  const answer = await client.embeddings(['where is the courier', 'and the writer'])
  expect(answer).toMatchObject({ object: 'list', model: expect.any(String) })
  expect(answer.data.map((one) => [one.object, one.index, one.embedding.length])).toEqual([
    ['embedding', 0, 1536],
    ['embedding', 1, 1536],
  ])
  const base64 = await bare('/v1/embeddings', {
    body: { input: 'x', model: 'any', encoding_format: 'base64' },
  })
  const [one] = base64.json.data as { embedding: string }[]
  expect(Buffer.from(one!.embedding, 'base64')).toHaveLength(1536 * 4)
  for (const input of [7, [], [7], null]) {
    expect((await bare('/v1/embeddings', { body: { input } })).status).toBe(422)
  }
})

test('health names every component and needs no key', async () => {
  const health = await call(gateway.vectorUrl, '/v1/health')
  expect(health.status).toBe(200)
  expect(health.json.status).toBe('pass')
  const components = health.json.components as Record<string, { status: string }>
  expect(Object.fromEntries(Object.entries(components).map(([name, { status }]) => [name, status]))).toEqual({
    proxy: 'none',
    api: 'pass',
    vector_engine: 'pass',
    relational_engine: 'pass',
    event_log: 'pass',
  })
})

test('the description lists every route with its schema, and the reference page answers', async () => {
  const api = await call(gateway.vectorUrl, '/v1/openapi.json')
  expect(api.json.openapi).toBe('3.1.0')
  expect(Object.keys(api.json.paths as object).sort()).toEqual([
    '/v1/auth/handshake',
    '/v1/auth/verify',
    '/v1/collections',
    '/v1/collections/{name}',
    '/v1/collections/{name}/indexes',
    '/v1/debug/agent/{agent_id}',
    '/v1/embeddings',
    '/v1/health',
    '/v1/operations/{operation_id}',
    '/v1/stats',
    '/v1/vectors/count',
    '/v1/vectors/delete',
    '/v1/vectors/get',
    '/v1/vectors/payload',
    '/v1/vectors/scroll',
    '/v1/vectors/search',
    '/v1/vectors/search-pg',
    '/v1/vectors/search/batch',
    '/v1/vectors/upsert',
  ])
  expect(api.text).not.toContain('def-0')
  expect(api.text).toContain('#/components/schemas/Problem')
  expect((await call(gateway.vectorUrl, '/v1/reference/')).status).toBe(200)
})
