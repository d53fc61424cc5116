/** Remembered texts and points, and the calls for collections. */

import { generateKeyPairSync } from 'node:crypto'
import { expect, test } from 'vitest'
import { type ClientOptions, createClient } from '../src/client.ts'

interface Sent {
  method: string
  path: string
  body: { points?: { id: string; text?: string; vector?: number[]; expires_at?: string }[]; name?: string }
  key: string | null
  bytes: number
}

/** A client of a gateway that answers by `respond`, and the calls that were sent. */
function clientOf(respond: (sent: Sent) => Response, options: Partial<ClientOptions> = {}) {
  const sent: Sent[] = []
  const { privateKey } = generateKeyPairSync('ed25519')
  const client = createClient({
    vectorUrl: 'http://gateway.test',
    agentId: 'whale',
    privateKeyPem: privateKey.export({ type: 'pkcs8', format: 'pem' }) as string,
    sleep: async () => {},
    fetch: (async (input: string | URL | Request, init: RequestInit = {}) => {
      init.signal?.throwIfAborted()
      const { pathname, search } = new URL(String(input))
      const text = typeof init.body === 'string' ? init.body : '{}'
      const body = JSON.parse(text)
      if (pathname === '/v1/auth/handshake') {
        return Response.json({
          server_nonce: 'cafe',
          public_key_fingerprint: 'SHA256:x',
          client_nonce: body.nonce,
        })
      }
      if (pathname === '/v1/auth/verify') return Response.json({ api_key: 'k', expires_in: 3_600 })
      const key = new Headers(init.headers).get('idempotency-key')
      sent.push({ method: init.method!, path: pathname + search, body, key, bytes: text.length })
      return respond(sent.at(-1)!)
    }) as typeof fetch,
    ...options,
  })
  return { client, sent }
}

const problem = (status: number, code: string) =>
  Response.json({ code, status, title: code, detail: code }, { status })

const applied = () => Response.json({ operation_id: 'op', status: 'applied', collection: 'posts', points: 1 })

test('texts and points get ids where they have none, and are waited for', async () => {
  const { client, sent } = clientOf(applied)
  const { ids } = await client.remember('posts', ['one', { id: 'p2', text: 'two', payload: { a: 1 } }])
  expect(ids).toEqual([expect.stringMatching(/^[0-9a-f-]{36}$/), 'p2'])
  expect(sent).toMatchObject([
    {
      path: '/v1/vectors/upsert?wait=true',
      key: expect.any(String),
      body: {
        collection: 'posts',
        points: [
          { id: ids[0], text: 'one' },
          { id: 'p2', text: 'two', payload: { a: 1 } },
        ],
      },
    },
  ])
  expect(await client.memory.remember('posts', [])).toEqual({ ids: [] })
  expect(sent).toHaveLength(1)
})

test('remembered points are sent in parts, cut by number and by size', async () => {
  const { client, sent } = clientOf(applied)
  const sizes = () => sent.splice(0).map(({ body }) => body.points?.length)
  await client.remember(
    'posts',
    Array.from({ length: 2_001 }, (_, n) => `text ${n}`),
  )
  expect(sizes()).toEqual([1_000, 1_000, 1])
  const long = '港'.repeat(16_384)
  await client.remember('posts', Array(100).fill(long))
  expect(sent.every(({ body }) => Buffer.byteLength(JSON.stringify(body)) < 4.2 * 1_048_576)).toBe(true)
  expect(sizes()).toEqual([85, 15])
  const vector = Array.from({ length: 1_536 }, () => Math.random())
  const payload = { notes: 'x'.repeat(60_000) }
  await client.remember('posts', Array(100).fill({ vector, payload }))
  expect(sent.every(({ bytes }) => bytes < 4.2 * 1_048_576)).toBe(true)
  expect(sizes().reduce((sum, n) => sum! + n!, 0)).toBe(100)
  // A point alone that is too large is the gateway's to refuse.
  await client.remember('posts', [{ text: 'x', payload: { notes: 'x'.repeat(5_000_000) } }])
  expect(sizes()).toEqual([1])
})

test('a repeated part keeps its key, and a failed operation is thrown', async () => {
  let refusals = 2
  const { client, sent } = clientOf(({ method }) => {
    if (method === 'GET') {
      return Response.json({ operation_id: 'op', status: 'failed', error: 'no room' })
    }
    if (refusals-- > 0) return problem(503, 'log_unavailable')
    return Response.json({ operation_id: 'op', status: 'accepted', collection: 'posts', points: 1 })
  })
  await expect(client.remember('posts', 'one')).rejects.toMatchObject({ code: 'operation_failed' })
  const keys = sent.filter(({ method }) => method === 'POST').map(({ key }) => key)
  expect(keys).toHaveLength(3)
  expect(new Set(keys).size).toBe(1)
  expect(await client.remember('posts', 'one', { wait: false })).toMatchObject({ ids: [expect.anything()] })
})

test('a batch of searches is one request, and its answers come in order', async () => {
  const answers = ['a', 'b'].map((id) => ({ results: [{ id, score: 1 }], took_ms: 1, records_scanned: 2 }))
  const { client, sent } = clientOf(() => Response.json({ results: answers }))
  const searches = [
    { collection: 'posts', text: 'one', limit: 3, scoreThreshold: 0.2, withPayload: false },
    { collection: 'tea', vector: new Float32Array([1, 0]), withVector: true, after: 'op' },
  ]
  expect(await client.searchBatch(searches)).toEqual(answers)
  expect(sent).toMatchObject([{ method: 'POST', path: '/v1/vectors/search/batch' }])
  expect(sent[0]!.body).toEqual({
    searches: [
      { collection: 'posts', text: 'one', limit: 3, score_threshold: 0.2, with_payload: false },
      { collection: 'tea', vector: [1, 0], with_vector: true, after: 'op' },
    ],
  })
  expect(await client.memory.searchBatch(searches)).toEqual(answers)
  const signal = AbortSignal.abort(new Error('too late'))
  await expect(client.searchBatch(searches, { signal })).rejects.toThrow('too late')
})

test('points are sent with their expiry, an ISO text or a Date, and read with it', async () => {
  const expires_at = '2027-01-31T12:00:00.000Z'
  const point = { id: 'a', vector: [1], payload: {}, expires_at }
  const { client, sent } = clientOf(({ path }) =>
    path.startsWith('/v1/vectors/get') ? Response.json(point) : applied(),
  )
  await client.remember('posts', [
    { id: 'a', text: 'one', expires_at },
    { text: 'two', expires_at: new Date(expires_at) },
    { text: 'three' },
  ])
  await client.upsert('posts', [{ id: 'b', vector: [1], expires_at: new Date(expires_at) }])
  const sentPoints = sent.flatMap(({ body }) => body.points ?? [])
  expect(sentPoints.map((sent) => sent.expires_at)).toEqual([expires_at, expires_at, undefined, expires_at])
  const found = await client.get('posts', 'a')
  await client.upsert('posts', [found])
  expect(sent.at(-1)!.body.points).toEqual([point])
})

test('payloads are changed by one request, which is repeated', async () => {
  let refusals = 1
  const answer = { operation_id: 'op', status: 'applied', collection: 'posts', points: 1, unknown: 1 }
  const { client, sent } = clientOf(() =>
    refusals-- > 0 ? problem(503, 'log_unavailable') : Response.json(answer),
  )
  const change = { set: { status: 'done', seen: null }, remove: ['draft'] }
  expect(await client.setPayload('posts', ['a', 'b'], change, { wait: true })).toEqual(answer)
  await client.memory.setPayload('posts', ['a'], { remove: ['draft'] })
  const calls = sent.map(({ method, path, body }) => [method, path, body])
  const first = ['POST', '/v1/vectors/payload?wait=true', { collection: 'posts', ids: ['a', 'b'], ...change }]
  const last = ['POST', '/v1/vectors/payload', { collection: 'posts', ids: ['a'], remove: ['draft'] }]
  expect(calls).toEqual([first, first, last])
})

test('collections are listed, made, shown and deleted by their names', async () => {
  const { client, sent } = clientOf(({ method, path }) =>
    method === 'GET' && path === '/v1/collections'
      ? Response.json({ collections: [{ name: 'tea' }] })
      : Response.json({ name: 'tea' }),
  )
  const { collections } = client.memory
  expect(await collections.list()).toEqual([{ name: 'tea' }])
  expect(await collections.create('tea', { description: 'Of leaves.' })).toEqual({ name: 'tea' })
  expect(await collections.get('tea/../x')).toEqual({ name: 'tea' })
  await collections.delete('tea')
  expect(sent.map(({ method, path }) => `${method} ${path}`)).toEqual([
    'GET /v1/collections',
    'POST /v1/collections',
    'GET /v1/collections/tea%2F..%2Fx',
    'DELETE /v1/collections/tea',
  ])
  expect(sent[1]).toMatchObject({ body: { name: 'tea' }, key: expect.any(String) })
})

test('a deletion whose first answer was lost is done when the collection is gone', async () => {
  const lost = [problem(503, 'service_unavailable'), problem(404, 'collection_not_found')]
  const { client } = clientOf(() => lost.shift() ?? problem(404, 'collection_not_found'))
  await client.memory.collections.delete('tea')
  await expect(client.memory.collections.delete('tea')).rejects.toMatchObject({
    code: 'collection_not_found',
  })
})
