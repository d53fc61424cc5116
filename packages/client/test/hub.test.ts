/** Notes and goals: requests, pages, versions, and streams that connect again. */

import { expect, test } from 'vitest'
import { type Change, type ClientOptions, createClient, createMainApi, type Note } from '../src/client.ts'
import { readEvents } from '../src/events.ts'

interface Sent {
  method: string
  url: URL
  headers: Headers
  body: unknown
}

type Reply = (sent: Sent, n: number) => Response

const privateKeyPem = `-----BEGIN PRIVATE KEY-----
MC4CAQAwBQYDK2VwBCIEIAABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4f
-----END PRIVATE KEY-----`

/** A platform in memory that issues keys by itself; calls to the hub are answered by `reply`. */
function worldOver(reply: Reply) {
  const sent: Sent[] = []
  let keys = 0
  const fake = async (input: string | URL | Request, init: RequestInit = {}) => {
    init.signal?.throwIfAborted()
    const url = new URL(String(input))
    const body = init.body ? JSON.parse(String(init.body)) : undefined
    if (url.pathname === '/v1/auth/handshake') {
      return Response.json({ client_nonce: body.nonce, server_nonce: 'cafe' })
    }
    if (url.pathname === '/v1/auth/verify') {
      keys += 1
      return Response.json({ api_key: `key-${keys}`, expires_in: 3_600 })
    }
    if (url.pathname === '/api/v1/auth/agent') {
      return Response.json({ ok: true, data: { customToken: 'c' } })
    }
    if (url.pathname.endsWith(':signInWithCustomToken')) {
      return Response.json({ idToken: 'id-token', expiresIn: '3600' })
    }
    const call: Sent = { method: init.method ?? 'GET', url, headers: new Headers(init.headers), body }
    sent.push(call)
    return reply(call, sent.length)
  }
  const options = { fetch: fake as typeof fetch, sleep: async () => {} }
  const client = (given: Partial<ClientOptions> = {}) =>
    createClient({ vectorUrl: 'http://gateway.test', agentId: 'whale', privateKeyPem, ...options, ...given })
  const api = () =>
    createMainApi({ baseUrl: 'http://main.test', agentKey: `svc_${'ab'.repeat(32)}`, ...options })
  return { sent, client, api, calls: () => sent.map(({ method, url }) => `${method} ${url.href}`) }
}

const note = (id: number) => ({ id, subject: `s${id}` })
const problem = (status: number, code: string) => Response.json({ code, detail: code }, { status })

test('notes and goals are read and written at the hub with a gateway key', async () => {
  const { sent, client, calls } = worldOver(() => Response.json(note(7), { headers: { etag: '"3"' } }))
  const { notes, goals } = client({ hubUrl: 'http://hub.test:1' })
  expect(await notes.get(7)).toEqual({ ...note(7), etag: '"3"' })
  await notes.create({ subject: 's', body: 'b', parent_id: 6 }, { idempotencyKey: 'k' })
  await notes.update(7, { status: 'resolved' }, { ifMatch: '"3"' })
  await goals.create({ title: 't' })
  await goals.update(8, { status: 'active' })
  expect(calls()).toEqual([
    'GET http://hub.test:1/fleet_notes/7',
    'POST http://hub.test:1/fleet_notes',
    'PATCH http://hub.test:1/fleet_notes/7',
    'POST http://hub.test:1/goals',
    'PATCH http://hub.test:1/goals/8',
  ])
  expect(sent.map(({ body }) => body)).toEqual([
    undefined,
    { subject: 's', body: 'b', parent_id: 6 },
    { status: 'resolved' },
    { title: 't' },
    { status: 'active' },
  ])
  expect(sent[1]?.headers.get('idempotency-key')).toBe('k')
  expect(sent[2]?.headers.get('if-match')).toBe('"3"')
  expect(sent[4]?.headers.has('if-match')).toBe(false)
  expect(sent.every(({ headers }) => headers.get('authorization') === 'Bearer key-1')).toBe(true)
})

test('the default hub is that of this machine', async () => {
  const { client, calls } = worldOver(() => Response.json([]))
  expect(await client().goals.list()).toEqual({ records: [], next: undefined })
  expect(calls()).toEqual(['GET http://127.0.0.1:8083/goals'])
})

test('a list is read page by page, with its filters', async () => {
  const pages: Reply = ({ url }) => {
    const after = Number(url.searchParams.get('cursor') ?? 0)
    const link = after < 4 ? { link: `</fleet_notes?limit=2&cursor=${after + 2}>; rel="next"` } : undefined
    return Response.json([note(after + 1), note(after + 2)], link ? { headers: link } : {})
  }
  const { client, sent } = worldOver(pages)
  const { notes } = client()
  const first = await notes.list({ status: 'active', author: 'a b', limit: 2 })
  expect(first).toEqual({ records: [note(1), note(2)], next: '2' })
  expect(sent[0]?.url.search).toBe('?status=active&author=a+b&limit=2')
  const ids: number[] = []
  for await (const { id } of notes.all({ priority: 'high' })) ids.push(id)
  expect(ids).toEqual([1, 2, 3, 4, 5, 6])
  expect(sent.at(-1)?.url.search).toBe('?priority=high&cursor=4')
  expect((await notes.thread(9, { cursor: '4' })).next).toBeUndefined()
  expect(sent.at(-1)?.url.pathname).toBe('/fleet_notes/9/thread')
})

test('changes are sent again only where that does no harm', async () => {
  let failures = 1
  const flaky: Reply = () => (failures-- > 0 ? problem(503, 'unavailable') : Response.json(note(1)))
  const { client, sent } = worldOver(flaky)
  const { notes } = client()
  expect((await notes.create({ subject: 's', body: 'b' }, { idempotencyKey: 'k' })).id).toBe(1)
  failures = 1
  expect((await notes.create({ subject: 's', body: 'b' })).id).toBe(1)
  const keys = sent.slice(-2).map(({ headers }) => headers.get('idempotency-key'))
  expect(keys).toEqual([keys[0], keys[0]])
  expect(keys[0]).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/)
  failures = 1
  await expect(notes.update(1, { status: 'archived' })).rejects.toMatchObject({ status: 503 })
  expect((await notes.get(1)).id).toBe(1)
})

test('by the main API the same goes below /api/v1, out of its envelope', async () => {
  const { api, calls, sent } = worldOver(({ url }) =>
    url.pathname.endsWith('/goals')
      ? Response.json(
          { ok: true, data: [note(1)] },
          { headers: { link: '</api/v1/goals?cursor=z>; rel="next"' } },
        )
      : Response.json({ ok: true, data: note(2) }, { headers: { etag: '"1"' } }),
  )
  const main = api()
  expect(await main.goals.list()).toEqual({ records: [note(1)], next: 'z' })
  expect(await main.notes.get(2)).toEqual({ ...note(2), etag: '"1"' })
  expect(calls()).toEqual(['GET http://main.test/api/v1/goals', 'GET http://main.test/api/v1/fleet_notes/2'])
  expect(sent[0]?.headers.get('authorization')).toBe('Bearer id-token')
})

/** An answer of these pieces; it then ends, or stays open. */
function streamOf(pieces: string[], stays = false): Response {
  const body = new ReadableStream({
    start(controller) {
      for (const piece of pieces) controller.enqueue(new TextEncoder().encode(piece))
      if (!stays) controller.close()
    },
  })
  return new Response(body, { headers: { 'content-type': 'text/event-stream' } })
}

test('a stream gives changes, connects again behind the last event, and ends with its signal', async () => {
  const { client, sent } = worldOver((_sent, n) => {
    if (n === 1) {
      // In pieces that break frames and characters.
      return streamOf([
        ': open\n\nevent: ready\nid: a\ndata: {}\n\nid: b\nda',
        'ta: {"id":1}\n',
        '\nid: c\n\n',
      ])
    }
    if (n === 2) return streamOf(['id: d\ndata: {"id":2}\n\nevent: end\ndata: {"code":"shutting_down"}\n\n'])
    return streamOf(['event: reset\nid: e\ndata: {}\n\n'], true)
  })
  const stop = new AbortController()
  const seen: Change<Note>[] = []
  for await (const change of client().notes.events({ signal: stop.signal })) {
    seen.push(change)
    if (change.type === 'reset') stop.abort()
  }
  expect(seen).toEqual([
    { type: 'ready', id: 'a' },
    { type: 'change', id: 'b', record: { id: 1 } },
    { type: 'change', id: 'd', record: { id: 2 } },
    { type: 'reset', id: 'e' },
  ])
  // A heartbeat's id counts, too.
  expect(sent.map(({ headers }) => headers.get('last-event-id'))).toEqual([null, 'c', 'd'])
})

test('a stream ends with the right of its caller, and with a hub that does not come back', async () => {
  const ended = worldOver((_sent, n) =>
    n === 1
      ? streamOf(['event: end\ndata: {"code":"unauthorized"}\n\n'])
      : Response.json({ code: 'unauthorized', detail: 'no' }, { status: 401 }),
  )
  const first = ended.client().goals.events({ lastEventId: 'x' })
  await expect(first.next()).rejects.toMatchObject({ code: 'unauthorized', status: 401 })
  expect(ended.sent[0]?.headers.get('last-event-id')).toBe('x')
  const broken = worldOver(() => streamOf(['event: end\ndata: {"code":"internal_error"}\n\n']))
  await expect(broken.client().goals.events().next()).rejects.toMatchObject({
    code: 'stream_ended',
    status: 0,
  })
  const away = worldOver(() => problem(503, 'log_unavailable'))
  await expect(away.client({ attemptsMax: 4 }).goals.events().next()).rejects.toMatchObject({
    code: 'log_unavailable',
  })
  expect(away.sent).toHaveLength(4)
})

test('closing the client ends its streams', async () => {
  const { client } = worldOver(() => streamOf(['event: ready\ndata: {}\n\n']))
  const own = client()
  const stream = own.notes.events()
  expect((await stream.next()).value).toEqual({ type: 'ready', id: undefined })
  await own.close()
  await expect(stream.next()).rejects.toMatchObject({ code: 'closed' })
})

test('a connection that falls silent is over', async () => {
  const { body } = streamOf(['data: 1\n\n'], true)
  const events = []
  for await (const event of readEvents(body as AsyncIterable<Uint8Array>, 50)) events.push(event.data)
  expect(events).toEqual(['1'])
})
