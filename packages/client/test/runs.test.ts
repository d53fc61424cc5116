/** Runs and dispatches: requests, streams that break and go on, outcomes. */

import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterEach, expect, test } from 'vitest'
import { type ClientOptions, createClient, createMainApi, type Run, type RunEvent } from '../src/client.ts'

const privateKeyPem = `-----BEGIN PRIVATE KEY-----
MC4CAQAwBQYDK2VwBCIEIAABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4f
-----END PRIVATE KEY-----`

interface Asked {
  call: string
  headers: IncomingMessage['headers']
  body: unknown
}

type Reply = (response: ServerResponse, n: number) => void | Promise<void>

const ends: (() => Promise<unknown>)[] = []

afterEach(async () => {
  await Promise.all(ends.splice(0).map((end) => end()))
})

/** A platform on a real port: it issues keys by itself, and answers calls to runs as `reply` says. */
async function platformOf(reply: Reply, given: Partial<ClientOptions> = {}) {
  const asked: Asked[] = []
  const server = createServer(async (request, response) => {
    let text = ''
    for await (const chunk of request) text += chunk
    const body = text === '' ? undefined : JSON.parse(text)
    const json = (value: unknown) =>
      response.setHeader('content-type', 'application/json').end(JSON.stringify(value))
    if (request.url === '/v1/auth/handshake') json({ client_nonce: body.nonce, server_nonce: 'cafe' })
    else if (request.url === '/api/v1/auth/agent') json({ ok: true, data: { customToken: 'c' } })
    else if (request.url?.includes(':signInWithCustomToken')) json({ idToken: 'id', expiresIn: '3600' })
    else if (request.url === '/v1/auth/verify') json({ api_key: 'key', expires_in: 3_600 })
    else {
      asked.push({ call: `${request.method} ${request.url}`, headers: request.headers, body })
      await reply(response, asked.length)
    }
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  const client = createClient({
    vectorUrl: url,
    runUrl: url,
    agentId: 'scout',
    privateKeyPem,
    sleep: async () => {},
    ...given,
  })
  ends.push(async () => {
    await client.close()
    server.closeAllConnections()
    await new Promise((resolve) => server.close(resolve))
  })
  const api = createMainApi({ baseUrl: url, agentKey: `svc_${'ab'.repeat(32)}`, sleep: async () => {} })
  return { client, api, asked, calls: () => asked.map(({ call }) => call) }
}

const event = (text: string, more: Partial<RunEvent> = {}): RunEvent => ({
  id: text,
  author: 'WHALE',
  invocationId: 'run_1',
  timestamp: 1,
  content: { role: 'model', parts: [{ text }] },
  ...more,
})
const run = (more: Partial<Run> = {}) =>
  ({ runId: 'run_1', status: 'completed', error: null, ...more }) as Run
const frame = (id: number | undefined, data: unknown) =>
  `${id === undefined ? '' : `id: ${id}\n`}data: ${JSON.stringify(data)}\n\n`
const last = (id: number, outcome: object, name = 'run') =>
  frame(id, { author: 'gateway', turnComplete: true, actions: {}, customMetadata: { [name]: outcome } })

function begin(response: ServerResponse): void {
  response.writeHead(200, { 'content-type': 'text/event-stream', 'x-run-id': 'run_1' })
  response.write('retry: 2000\n\n: open\n\n')
}

function stream(response: ServerResponse, ...frames: string[]): void {
  begin(response)
  response.end(frames.join(''))
}

function problem(response: ServerResponse, status: number, code: string): void {
  response.writeHead(status, { 'content-type': 'application/problem+json' })
  response.end(JSON.stringify({ code, detail: code }))
}

test('a message is sent as a run request, and its events are the answer', async () => {
  const { client, asked } = await platformOf((response) =>
    stream(
      response,
      frame(undefined, event('on', { partial: true })),
      frame(1, event('one')),
      last(1, run()),
    ),
  )
  const answer = await client.runs.run('WHALE', 'hello', {
    userId: 'u',
    sessionId: 's',
    onBusy: 'reject',
    join: false,
  })
  expect(answer).toEqual({ run: run(), events: [event('one')] })
  expect(asked[0]).toMatchObject({
    call: 'POST /whale/run?join=false',
    headers: { authorization: 'Bearer key', accept: 'text/event-stream' },
    body: {
      userId: 'u',
      sessionId: 's',
      appName: 'WHALE',
      newMessage: { role: 'user', parts: [{ text: 'hello' }] },
      streaming: false,
      onBusy: 'reject',
    },
  })
  expect(asked[0]?.headers['idempotency-key']).toMatch(/^[0-9a-f-]{36}$/)
})

test('a stream that breaks goes on behind the last event, and gives each event once', async () => {
  const { client, asked } = await platformOf((response, n) => {
    if (n === 1) {
      begin(response)
      response.write(frame(1, event('one')) + frame(undefined, event('t', { partial: true })))
      // In the middle of a frame.
      response.write('id: 2\ndata: {"id":', () => setTimeout(() => response.destroy(), 20))
    } else if (n === 2) problem(response, 503, 'shutting_down')
    // Earlier events may be repeated: the client returns each once.
    else if (n === 3) stream(response, frame(1, event('one')), frame(2, event('two')))
    else stream(response, frame(3, event('three')), last(3, run()))
  })
  const running = await client.runs.stream('whale', 'hello')
  expect([running.runId, running.result]).toEqual(['run_1', undefined])
  const texts: string[] = []
  for await (const { id } of running) texts.push(id)
  expect(texts).toEqual(['one', 't', 'two', 'three'])
  expect([running.lastEventId, running.result]).toEqual([3, run()])
  expect(asked.map(({ call, headers }) => [call, headers['last-event-id']])).toEqual([
    ['POST /whale/run', undefined],
    ['GET /runs/run_1/events', '1'],
    ['GET /runs/run_1/events', '1'],
    ['GET /runs/run_1/events', '2'],
  ])
  expect(asked[0]?.body).toMatchObject({ streaming: true })
})

test('a message whose answer did not come is sent again under the same key', async () => {
  const { client, asked } = await platformOf((response, n) => {
    if (n === 1) response.destroy()
    else stream(response, frame(1, event('one')), last(1, run()))
  })
  expect((await client.runs.run('whale', 'hello')).events).toEqual([event('one')])
  expect(asked).toHaveLength(2)
  expect(asked[1]?.headers['idempotency-key']).toBe(asked[0]?.headers['idempotency-key'])
})

test('a run that failed or was canceled is a fault of `run`, and an outcome of `stream`', async () => {
  const error = { code: 'run_timeout', message: 'It took longer than 300 s.', retryable: false }
  const outcomes = [
    run({ status: 'failed', error }),
    run({ status: 'canceled' }),
    run({ status: 'failed', error }),
  ]
  const { client } = await platformOf((response, n) =>
    stream(response, frame(1, event('one')), last(1, outcomes[n - 1]!)),
  )
  await expect(client.runs.run('whale', 'hello')).rejects.toMatchObject({
    code: 'run_timeout',
    status: 504,
    message: expect.stringContaining('run_1'),
  })
  await expect(client.runs.run('whale', 'hello')).rejects.toMatchObject({ code: 'run_canceled', status: 409 })
  const running = await client.runs.stream('whale', 'hello')
  for await (const _ of running);
  expect(running.result?.error).toEqual(error)
})

test('refusals are thrown as they are', async () => {
  const { client, calls } = await platformOf((response, n) =>
    problem(response, n === 1 ? 404 : 409, n === 1 ? 'agent_not_found' : 'session_busy'),
  )
  await expect(client.runs.stream('nobody', 'hello')).rejects.toMatchObject({
    code: 'agent_not_found',
    status: 404,
  })
  await expect(client.runs.run('whale', 'hello')).rejects.toMatchObject({ code: 'session_busy' })
  expect(calls()).toHaveLength(2)
})

test('a run that ended before is read from any event on', async () => {
  const { client, asked } = await platformOf((response) =>
    stream(response, frame(3, event('three')), last(3, run())),
  )
  const resumed = await client.runs.resume('run_1', { after: 2, join: false })
  const texts: string[] = []
  for await (const { id } of resumed) texts.push(id)
  expect([texts, resumed.result]).toEqual([['three'], run()])
  expect(asked[0]).toMatchObject({
    call: 'GET /runs/run_1/events?join=false',
    headers: { 'last-event-id': '2' },
  })
})

test('a run of which all was read is shown by its record', async () => {
  const { client, calls } = await platformOf((response, n) => {
    if (n === 1) response.writeHead(204).end()
    else response.setHeader('content-type', 'application/json').end(JSON.stringify(run()))
  })
  const resumed = await client.runs.resume('run_1', { after: 4 })
  for await (const _ of resumed) throw new Error('there are no events left')
  expect(resumed.result).toEqual(run())
  expect(calls()).toEqual(['GET /runs/run_1/events', 'GET /runs/run_1'])
})

test('a stream that broke goes on while the proxy in front says that nobody is there', async () => {
  const { client } = await platformOf((response, n) => {
    if (n === 1) {
      begin(response)
      response.write(frame(1, event('one')), () => setTimeout(() => response.destroy(), 20))
    } else if (n < 6) response.writeHead(n % 2 ? 502 : 504, { 'content-type': 'text/html' }).end('<html>')
    else stream(response, last(2, run()))
  })
  const running = await client.runs.stream('whale', 'hello')
  for await (const _ of running);
  expect(running.result).toEqual(run())
})

test('an aborted signal ends the reading', async () => {
  const { client } = await platformOf((response) => {
    begin(response)
    response.write(frame(1, event('one')))
  })
  const stop = new AbortController()
  const running = await client.runs.stream('whale', 'hello', { signal: stop.signal })
  const reading = (async () => {
    for await (const _ of running) stop.abort()
  })()
  await expect(reading).rejects.toMatchObject({ name: 'AbortError' })
  expect(running.result).toBeUndefined()
})

test('runs are read, listed page by page, and canceled', async () => {
  const { client, calls } = await platformOf((response, n) => {
    response.setHeader('content-type', 'application/json')
    if (n === 2) response.setHeader('link', '</runs?limit=1&cursor=c>; rel="next"')
    const listed = [run({ runId: `run_${n}` })]
    response.end(JSON.stringify(n === 2 || n === 3 ? listed : run({ status: 'canceled' })))
  })
  expect((await client.runs.get('run_1')).status).toBe('canceled')
  const ids: string[] = []
  for await (const { runId } of client.runs.all({ status: 'failed', goalId: 7, limit: 1 })) ids.push(runId)
  expect(ids).toEqual(['run_2', 'run_3'])
  expect((await client.runs.cancel('run_1')).status).toBe('canceled')
  expect(calls()).toEqual([
    'GET /runs/run_1',
    'GET /runs?status=failed&goalId=7&limit=1',
    'GET /runs?status=failed&goalId=7&limit=1&cursor=c',
    'POST /runs/run_1/cancel',
  ])
})

test('a dispatch is sent to all, followed to its end, and canceled', async () => {
  const ended = { goalId: 7, status: 'completed', result: 'All said the same.' }
  const { client, asked, calls } = await platformOf((response, n) => {
    if (n === 2) stream(response, frame(1, event('one')), frame(2, event('two', { author: 'PULSE' })))
    else if (n === 3) stream(response, last(2, ended, 'dispatch'))
    else
      response
        .setHeader('content-type', 'application/json')
        .end(JSON.stringify({ ...ended, status: 'running' }))
  })
  const { goalId } = await client.runs.dispatch('Report, all of you.', { sessionId: 's' })
  const running = await client.runs.dispatches.stream(goalId)
  const authors: string[] = []
  for await (const { author } of running) authors.push(author)
  expect([authors, running.result]).toEqual([['WHALE', 'PULSE'], ended])
  await client.runs.dispatches.get(7)
  await client.runs.dispatches.cancel(7)
  expect(asked[0]?.body).toEqual({ sessionId: 's', message: 'Report, all of you.' })
  expect(calls()).toEqual([
    'POST /dispatch',
    'GET /dispatches/7/events',
    'GET /dispatches/7/events',
    'GET /dispatches/7',
    'POST /dispatches/7/cancel',
  ])
})

test('at the main API a run is made, and its events are read behind it', async () => {
  const { api, asked, calls } = await platformOf((response, n) => {
    if (n === 2) stream(response, frame(1, event('one')), last(1, run()))
    else {
      const data = n === 1 ? run({ status: 'queued' }) : n === 3 ? { goalId: 7 } : [run()]
      response.writeHead(202, { 'content-type': 'application/json' }).end(JSON.stringify({ ok: true, data }))
    }
  })
  expect(await api.runs.run('atlas', 'hello')).toEqual({ run: run(), events: [event('one')] })
  expect((await api.runs.dispatch('hello')).goalId).toBe(7)
  expect((await api.runs.list({ agent: 'atlas' })).runs).toEqual([run()])
  expect(calls()).toEqual([
    'POST /api/v1/runs',
    'GET /api/v1/runs/run_1/events',
    'POST /api/v1/dispatches',
    'GET /api/v1/runs?agent=atlas',
  ])
  expect(asked[0]).toMatchObject({
    body: { appName: 'atlas', newMessage: { parts: [{ text: 'hello' }] } },
    headers: { authorization: 'Bearer id', 'idempotency-key': expect.any(String) },
  })
  await api.close()
})
