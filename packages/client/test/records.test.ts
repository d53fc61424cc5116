/** Records of a topic: a stream that survives breaks, pages of present records, and faults that end it. */

import { expect, test } from 'vitest'
import { createMainApi, type TopicRecord } from '../src/client.ts'

const agentKey = `svc_${'ab'.repeat(32)}`

interface Asked {
  query: string
  lastEventId: string | null
  accept: string | null
}

/** A main API in memory that signs in by itself; what reads records is answered by `reply`. */
function apiOver(reply: (n: number, asked: Asked) => Response) {
  const asked: Asked[] = []
  const fake = async (input: string | URL | Request, init: RequestInit = {}) => {
    const url = new URL(String(input))
    if (url.pathname === '/api/v1/auth/agent') return Response.json({ ok: true, data: { customToken: 'c' } })
    if (url.pathname.includes(':signInWithCustomToken'))
      return Response.json({ idToken: 'id', expiresIn: '3600' })
    expect(url.pathname).toBe('/api/v1/log/topics/hub.records/records')
    const headers = new Headers(init.headers)
    asked.push({
      query: url.search,
      lastEventId: headers.get('last-event-id'),
      accept: headers.get('accept'),
    })
    return reply(asked.length, asked.at(-1)!)
  }
  const api = createMainApi({
    baseUrl: 'http://main.test',
    agentKey,
    fetch: fake as typeof fetch,
    sleep: async () => {},
  })
  return { api, asked }
}

const record = (offset: number, partition = 0) => ({
  partition,
  offset,
  timestamp: '2026-01-01T00:00:00.000Z',
  key: `k${offset}`,
  headers: {},
  value: { n: offset },
})
const event = (id: string, data: unknown, name?: string) =>
  `${name === undefined ? '' : `event: ${name}\n`}id: ${id}\ndata: ${JSON.stringify(data)}\n\n`
const stream = (...frames: string[]) =>
  new Response(frames.join(''), { headers: { 'content-type': 'text/event-stream' } })
const problem = (status: number, code: string, more = {}) =>
  Response.json({ code, detail: code, ...more }, { status })

async function take(records: AsyncGenerator<TopicRecord>, count: number): Promise<TopicRecord[]> {
  const taken: TopicRecord[] = []
  for await (const one of records) if (taken.push(one) === count) break
  return taken
}

test('goes on behind the last event after a break, a heartbeat and the end of a server', async () => {
  const { api, asked } = apiOver((n) => {
    if (n === 1)
      return stream(event('0:1', { next: '0:1' }, 'ready'), event('0:2', record(1)), 'id: 0:3\ndata: {"par')
    if (n === 2) return stream(': heartbeat\nid: 0:5\n\n', `event: end\ndata: {"code":"shutting_down"}\n\n`)
    if (n === 3) return problem(503, 'shutting_down')
    return stream(event('0:6', record(5)), event('0:7', record(6)))
  })
  const taken = await take(api.records('hub.records', { from: '0:1' }), 3)
  expect(taken.map(({ position, offset }) => [position, offset])).toEqual([
    ['0:2', 1],
    ['0:6', 5],
    ['0:7', 6],
  ])
  expect(asked.map(({ query, lastEventId }) => [query, lastEventId])).toEqual([
    ['?from=0%3A1', null],
    ['', '0:2'],
    ['', '0:5'],
    ['', '0:5'],
  ])
  expect(asked[0]!.accept).toBe('text/event-stream')
})

test('a position that expired ends it with the oldest that is held, also in the midst', async () => {
  const { api } = apiOver((n) =>
    n === 1
      ? stream(event('0:2', record(1)), `event: end\ndata: {"code":"position_expired"}\n\n`)
      : problem(410, 'position_expired', { earliest: '0:9' }),
  )
  const records = api.records('hub.records')
  expect((await records.next()).value).toMatchObject({ offset: 1 })
  await expect(records.next()).rejects.toMatchObject({
    code: 'position_expired',
    members: { earliest: '0:9' },
  })
})

test('a platform that stays away, and what refuses the caller, end it', async () => {
  const away = apiOver(() => problem(503, 'log_unavailable'))
  await expect(away.api.records('hub.records', { awayMs: 0 }).next()).rejects.toMatchObject({
    code: 'log_unavailable',
  })
  const refused = apiOver(() => problem(403, 'forbidden'))
  await expect(refused.api.records('hub.records').next()).rejects.toMatchObject({ code: 'forbidden' })
  const ended = apiOver(() => stream(`event: end\ndata: {"code":"internal_error"}\n\n`))
  await expect(ended.api.records('hub.records').next()).rejects.toMatchObject({ code: 'stream_ended' })
})

test('present records come page by page, each record with the position behind it', async () => {
  const page = (records: object[], next: string) => Response.json({ ok: true, data: { records, next } })
  const { api, asked } = apiOver((n) => {
    if (n === 1) return page([record(0), record(4, 1), record(1)], 'e2/0:2,1:5,2:0')
    if (n === 2) return page([record(2)], 'e2/0:3,1:5,2:0')
    return page([], 'e2/0:3,1:5,2:0')
  })
  const taken = await take(api.records('hub.records', { follow: false }), 9)
  expect(taken.map(({ position }) => position)).toEqual([
    'e2/0:1',
    'e2/0:1,1:5',
    'e2/0:2,1:5',
    'e2/0:3,1:5,2:0',
  ])
  expect(asked.map(({ query }) => new URLSearchParams(query).get('from'))).toEqual([
    'beginning',
    'e2/0:2,1:5,2:0',
    'e2/0:3,1:5,2:0',
  ])
})

test('a signal ends it without a fault', async () => {
  const stop = new AbortController()
  const { api } = apiOver(() => stream(event('0:1', record(0)), event('0:2', record(1))))
  const taken: number[] = []
  for await (const { offset } of api.records('hub.records', { signal: stop.signal })) {
    taken.push(offset)
    stop.abort()
  }
  expect(taken).toEqual([0])
})
