/** Promises of the client to its callers: keys, retries, time-outs and faults. */

import { generateKeyPairSync, verify } from 'node:crypto'
import { expect, test } from 'vitest'
import { type ClientOptions, createClient, ProblemError } from '../src/client.ts'

const pair = generateKeyPairSync('ed25519')
const privateKeyPem = pair.privateKey.export({ type: 'pkcs8', format: 'pem' }) as string

interface Sent {
  method: string
  path: string
  search: string
  key: string | undefined
  headers: Headers
  body: Record<string, unknown>
}

type Reply = { status?: number; json?: unknown; headers?: Record<string, string> } | Error

/** A gateway in memory: answers handshakes by itself and everything else as `answer` says. */
function clientOver(answer: (sent: Sent, n: number) => Reply, options: Partial<ClientOptions> = {}) {
  const sent: Sent[] = []
  const waits: number[] = []
  let keys = 0
  const fake = async (input: string | URL | Request, init: RequestInit = {}) => {
    const url = new URL(String(input))
    const headers = new Headers(init.headers)
    const call: Sent = {
      method: init.method ?? 'GET',
      path: url.pathname,
      search: url.search,
      key: headers.get('authorization')?.slice('Bearer '.length),
      headers,
      body: init.body ? (JSON.parse(String(init.body)) as Record<string, unknown>) : {},
    }
    if (call.path === '/v1/auth/handshake') {
      return Response.json({
        client_nonce: call.body.nonce,
        server_nonce: 'cafe',
        public_key_fingerprint: 'SHA256:x',
      })
    }
    if (call.path === '/v1/auth/verify') {
      keys += 1
      return Response.json({ api_key: `key-${keys}`, expires_in: 3_600 })
    }
    sent.push(call)
    const reply = answer(call, sent.length)
    if (reply instanceof Error) throw reply
    return Response.json(reply.json ?? {}, { status: reply.status ?? 200, headers: reply.headers ?? {} })
  }
  const client = createClient({
    vectorUrl: 'http://gateway.test',
    agentId: 'whale',
    privateKeyPem,
    fetch: fake as typeof fetch,
    random: () => 0.5,
    sleep: async (ms) => {
      waits.push(ms)
    },
    ...options,
  })
  return { client, sent, waits, keys: () => keys }
}

const away = { status: 503, json: { code: 'log_unavailable', detail: 'away', retryAfter: 2 } }
const point = { id: 'a', vector: [1, 2], payload: {} }

test('it signs client nonce and server nonce, once for many calls', async () => {
  const signatures: { text: string; signature: string }[] = []
  let nonce = ''
  const { client, keys } = clientOver(() => ({ json: { count: 1 } }), {
    fetch: (async (input: string, init: RequestInit) => {
      const body = init.body ? (JSON.parse(String(init.body)) as Record<string, string>) : {}
      if (String(input).endsWith('/handshake')) {
        nonce = body.nonce as string
        return Response.json({ client_nonce: nonce, server_nonce: 'cafe' })
      }
      if (String(input).endsWith('/verify')) {
        signatures.push({ text: `${nonce}cafe`, signature: body.signature as string })
        return Response.json({ api_key: 'k', expires_in: 3_600 })
      }
      return Response.json({ count: 1 })
    }) as unknown as typeof fetch,
  })
  await Promise.all([client.count('posts'), client.count('posts'), client.count('posts')])
  expect(keys()).toBe(0)
  expect(signatures).toHaveLength(1)
  expect(nonce).toMatch(/^[0-9a-f]{64}$/)
  const [{ text, signature }] = signatures as [{ text: string; signature: string }]
  expect(verify(null, Buffer.from(text), pair.publicKey, Buffer.from(signature, 'hex'))).toBe(true)
})

test('a refused key is renewed once, a second refusal is reported', async () => {
  const refused = { status: 401, json: { code: 'unauthorized', detail: 'no' } }
  const once = clientOver((sent) => (sent.key === 'key-1' ? refused : { json: { count: 3 } }))
  expect(await once.client.count('posts')).toBe(3)
  expect(once.sent.map((one) => one.key)).toEqual(['key-1', 'key-2'])
  const always = clientOver(() => refused)
  await expect(always.client.count('posts')).rejects.toMatchObject({ code: 'unauthorized', status: 401 })
  expect(always.sent).toHaveLength(2)
})

test('a key is renewed before it runs out', async () => {
  let now = 0
  const { client } = clientOver(() => ({ json: { count: 1 } }), { now: () => now })
  expect(await client.apiKey()).toBe('key-1')
  now = 3_200_000
  expect(await client.apiKey()).toBe('key-1')
  now = 3_300_000
  expect(await client.apiKey()).toBe('key-2')
})

test('reads are retried after retryAfter with jitter, within the bound of attempts', async () => {
  const twice = clientOver((_sent, n) => (n <= 2 ? away : { json: { count: 9 } }))
  expect(await twice.client.count('posts')).toBe(9)
  expect(twice.waits).toEqual([2_050, 2_050])
  const never = clientOver(() => away, { attemptsMax: 3 })
  await expect(never.client.count('posts')).rejects.toMatchObject({ code: 'log_unavailable', retryAfter: 2 })
  expect(never.sent).toHaveLength(3)
})

test('a longer retryAfter than is worth waiting for is reported at once', async () => {
  const { client, sent } = clientOver(() => ({
    status: 429,
    json: { code: 'quota_exceeded', retryAfter: 9_000 },
  }))
  await expect(client.count('posts')).rejects.toMatchObject({ code: 'quota_exceeded', retryAfter: 9_000 })
  expect(sent).toHaveLength(1)
})

test('an upsert is retried only with an Idempotency-Key, but 429 is always safe', async () => {
  const plain = clientOver(() => away)
  await expect(plain.client.upsert('posts', [point])).rejects.toMatchObject({ status: 503 })
  expect(plain.sent).toHaveLength(1)
  const keyed = clientOver((_sent, n) =>
    n === 1 ? new TypeError('fetch failed') : { json: { operation_id: 'o' } },
  )
  await keyed.client.upsert('posts', [point], { idempotencyKey: 'k', wait: true })
  expect(keyed.sent.map((one) => [one.headers.get('idempotency-key'), one.search])).toEqual([
    ['k', '?wait=true'],
    ['k', '?wait=true'],
  ])
  const full = clientOver((_sent, n) =>
    n === 1 ? { status: 429, json: { code: 'backlog_full', retryAfter: 0.5 } } : {},
  )
  await full.client.upsert('posts', [point])
  expect(full.waits).toEqual([550])
})

test('faults of the request are reported at once, with their paths and the request id', async () => {
  const { client, sent } = clientOver(() => ({
    status: 422,
    json: { code: 'validation_failed', detail: 'mend', errors: [{ path: '/vector', message: 'short' }] },
    headers: { 'x-request-id': 'r-1' },
  }))
  const error = await client.search({ collection: 'posts', vector: [1] }).catch((thrown: unknown) => thrown)
  expect(error).toBeInstanceOf(ProblemError)
  expect(error).toMatchObject({
    status: 422,
    requestId: 'r-1',
    errors: [{ path: '/vector', message: 'short' }],
  })
  expect(sent).toHaveLength(1)
})

test('an answer that is no problem document still has a code', async () => {
  const html = async () => new Response('<html>', { status: 502, headers: { 'retry-after': '3' } })
  const { client } = clientOver(() => ({}), { fetch: html as unknown as typeof fetch })
  await expect(client.health()).rejects.toMatchObject({ code: 'http_502', status: 502, retryAfter: 3 })
})

test('a proxy whose service is away is asked again, and an answer of the platform is not', async () => {
  for (const status of [502, 503, 504, 520]) {
    let n = 0
    const proxy = async () =>
      ++n < 3 ? new Response('<h1>Bad Gateway</h1>', { status }) : Response.json({ status: 'ok' })
    const { client } = clientOver(() => ({}), { fetch: proxy as unknown as typeof fetch })
    expect(await client.health()).toEqual({ status: 'ok' })
  }
  const failed = clientOver(() => ({ status: 502, json: { code: 'operation_failed', detail: 'no' } }))
  await expect(failed.client.count('posts')).rejects.toMatchObject({ code: 'operation_failed' })
  expect(failed.sent).toHaveLength(1)
  const off = clientOver(() => ({ status: 503, json: { code: 'mirror_off', detail: 'no' } }))
  await expect(off.client.count('posts')).rejects.toMatchObject({ code: 'mirror_off', status: 503 })
  expect(off.sent).toHaveLength(1)
})

test('closing the client ends the wait before another attempt', async () => {
  const away = async () => Response.json({ code: 'x', retryAfter: 9 }, { status: 503 })
  const client = createClient({
    vectorUrl: 'http://gateway.test',
    agentId: 'whale',
    privateKeyPem,
    fetch: away as unknown as typeof fetch,
    sleep: (_ms, signal) =>
      new Promise((resolve) => signal?.addEventListener('abort', () => resolve(), { once: true })),
  })
  const count = client.count('posts')
  setImmediate(() => void client.close())
  await expect(count).rejects.toMatchObject({ code: 'closed' })
})

test('ids cannot lead to another path', async () => {
  const { client, sent } = clientOver(() => ({}))
  for (const id of ['', '.', '..']) {
    expect(() => client.operation(id)).toThrow('is no id')
  }
  await client.operation('../a b/%2e')
  expect(sent.map(({ path }) => path)).toEqual(['/v1/operations/..%2Fa%20b%2F%252e'])
})

test('a connection that fails is named with host, port and reason, and without a password', async () => {
  const client = createClient({
    vectorUrl: 'http://user:s3cret@127.0.0.1:9/p',
    agentId: 'whale',
    attemptsMax: 1,
    fetch: refuse,
  })
  await expect(client.health()).rejects.toMatchObject({
    code: 'no_answer',
    message: 'no_answer: the connection to 127.0.0.1:9 failed before an answer came (ECONNREFUSED)',
  })
})

/** As the global fetch fails. */
const refuse = async () => {
  throw new TypeError('fetch failed', { cause: Object.assign(new Error(), { code: 'ECONNREFUSED' }) })
}

test('no answer in time is a timeout, and a closed client sends nothing more', async () => {
  const silent = (_input: unknown, init: RequestInit) =>
    new Promise<Response>((_resolve, reject) => {
      init.signal?.addEventListener('abort', () => reject(init.signal?.reason))
    })
  const { client } = clientOver(() => ({}), { fetch: silent as typeof fetch, timeoutMs: 20, attemptsMax: 2 })
  const message = 'timeout: no answer from gateway.test within 20 ms'
  await expect(client.health()).rejects.toMatchObject({ code: 'timeout', status: 0, message })
  const other = clientOver(() => ({}), { fetch: silent as typeof fetch })
  const health = other.client.health()
  await other.client.close()
  await expect(health).rejects.toMatchObject({ code: 'closed' })
})

test('names become those of the interface, and undefined ones are left out', async () => {
  const { client, sent } = clientOver(() => ({ json: { results: [], points: [], next_offset: null } }))
  await client.search({
    collection: 'posts',
    vector: new Float32Array([1, 0.5]),
    scoreThreshold: 0.2,
    withVector: true,
    after: 'op',
  })
  expect(sent[0]?.body).toEqual({
    collection: 'posts',
    vector: [1, 0.5],
    score_threshold: 0.2,
    with_vector: true,
    after: 'op',
  })
  await client.getMany('posts', ['a&b', 'c'])
  expect([sent[1]?.method, sent[1]?.search]).toEqual(['GET', '?collection=posts&ids=a%26b&ids=c'])
  const filter = { must: [{ key: 'a', match: { value: 1 } }] }
  await client.count('posts', { filter })
  expect(new URLSearchParams(sent[2]?.search).get('filter')).toBe(JSON.stringify(filter))
  await client.delete('posts', ['a'])
  expect([sent[3]?.method, sent[3]?.body]).toEqual(['DELETE', { collection: 'posts', ids: ['a'] }])
  // Ids too long for an address go into the body, which older gateways do not support.
  const ids = Array.from({ length: 1_000 }, (_, n) => `a-point-${n}`)
  await client.getMany('posts', ids)
  expect([sent[4]?.method, sent[4]?.body]).toEqual(['POST', { collection: 'posts', ids }])
})

test('scrollAll goes on from page to page', async () => {
  const pages: Record<string, unknown> = {
    start: { points: [{ id: 'a' }, { id: 'b' }], next_offset: 'c' },
    c: { points: [{ id: 'c' }], next_offset: null },
  }
  const { client } = clientOver((sent) => ({
    json: pages[(sent.body.offset as string | undefined) ?? 'start'],
  }))
  const ids: string[] = []
  for await (const found of client.scrollAll({ collection: 'posts' })) ids.push(found.id)
  expect(ids).toEqual(['a', 'b', 'c'])
})

test('waitFor asks until the operation is final, or the time is up', async () => {
  const states = ['accepted', 'accepted', 'failed']
  const { client } = clientOver((_sent, n) => ({ json: { operation_id: 'o', status: states[n - 1] } }))
  expect(await client.waitFor('o')).toEqual({ operation_id: 'o', status: 'failed' })
  const slow = clientOver(() => ({ json: { operation_id: 'o', status: 'accepted' } }))
  await expect(slow.client.waitFor('o', { timeoutMs: 120 })).rejects.toMatchObject({ code: 'timeout' })
})

test('an answer that is no JSON, as of a proxy, is a fault that says so', async () => {
  const client = createClient({
    vectorUrl: 'http://gateway.test',
    apiKey: 'vk',
    fetch: (async () => new Response('<html>sign in</html>')) as typeof fetch,
  })
  await expect(client.count('posts')).rejects.toMatchObject({
    code: 'invalid_answer',
    message: 'invalid_answer: the answer to GET v1/vectors/count is no JSON',
  })
})
