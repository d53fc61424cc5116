/** What every HTTP interface of the platform does with bodies, faults, request ids and probes. */

import { request as httpRequest } from 'node:http'
import { connect } from 'node:net'
import type { FastifyInstance } from 'fastify'
import pino from 'pino'
import { Registry } from 'prom-client'
import { Type } from 'typebox'
import { expect, onTestFinished, test } from 'vitest'
import { AppError } from '#lib/errors.ts'
import { createHttpApp, type HttpAppOptions, registerApiDescription } from '#runtime/http/app.ts'

const closed = { additionalProperties: false }
const thing = Type.Object(
  { name: Type.String({ maxLength: 5 }), size: Type.Optional(Type.Integer()) },
  closed,
)

/** An app with an echo route; `lines` holds what it logs. */
function testApp(options: Partial<HttpAppOptions> = {}): { app: FastifyInstance; lines: string[] } {
  const lines: string[] = []
  const log = pino({ level: 'debug' }, { write: (line: string) => lines.push(line) })
  const app = createHttpApp({
    name: 'test',
    log,
    metrics: new Registry(),
    bodyBytesMax: 1_048_576,
    ...options,
  })
  app.post('/things', { schema: { body: thing } }, (request, reply) => reply.send(request.body))
  app.post('/any', (request, reply) => reply.type('application/json').send(JSON.stringify(request.body)))
  app.delete('/things', (request, reply) => reply.type('application/json').send(JSON.stringify(request.body)))
  app.get('/things/:id', { schema: { querystring: Type.Object({}, closed) } }, (request, reply) =>
    reply.send({ id: (request.params as { id: string }).id, ip: request.ip, trace: request.traceparent }),
  )
  app.get('/fails', () => {
    throw new Error('password=hunter2 in the engine text')
  })
  app.get('/away', () => {
    throw new AppError('vector_engine_unavailable', 'ECONNREFUSED 10.0.0.7:6333')
  })
  app.get('/limited', () => {
    throw new AppError('rate_limited', 'Wait.', { retryAfter: 1.2 })
  })
  app.get('/secret', () => {
    throw new AppError('unauthorized', 'Send a key.')
  })
  onTestFinished(() => app.close())
  return { app, lines }
}

function post(app: FastifyInstance, url: string, payload: string | Buffer, type = 'application/json') {
  return app.inject({ method: 'POST', url, payload, headers: { 'content-type': type } })
}

test('a body that is not JSON, not UTF-8, empty or missing is 400 invalid_json and is not quoted', async () => {
  const { app } = testApp()
  for (const body of ['{"name": hunter2', '', '\uFEFF{}', Buffer.from([0x22, 0xff, 0x22])]) {
    const answer = await post(app, '/things', body)
    expect([answer.statusCode, answer.json().code]).toEqual([400, 'invalid_json'])
    expect(answer.body).not.toContain('hunter2')
    expect(answer.headers['content-type']).toContain('application/problem+json')
  }
  const missing = await app.inject({ method: 'POST', url: '/things' })
  expect([missing.statusCode, missing.json().code]).toEqual([400, 'invalid_json'])
})

test('another content type is 415, and text is never taken for JSON', async () => {
  const { app } = testApp()
  for (const type of ['text/plain', 'application/xml', 'application/x-www-form-urlencoded']) {
    const answer = await post(app, '/things', '{"name":"a"}', type)
    expect([answer.statusCode, answer.json().code]).toEqual([415, 'unsupported_media_type'])
  }
  expect((await post(app, '/things', '{"name":"a"}', 'application/json; charset=utf-8')).statusCode).toBe(200)
})

test('nothing is coerced and unknown keys are refused, each fault with its path', async () => {
  const { app } = testApp()
  const answer = await post(app, '/things', '{"name":7,"size":"3","__proto__":1,"a/b":2}')
  expect(answer.statusCode).toBe(422)
  const { errors, ...problem } = answer.json()
  expect(problem).toMatchObject({ code: 'validation_failed', status: 422, title: 'The request is not valid' })
  expect(errors.map((error: { path: string }) => error.path).sort()).toEqual([
    '/__proto__',
    '/a~1b',
    '/name',
    '/size',
  ])
  const unknownQuery = await app.inject('/things/1?x=1')
  expect([unknownQuery.statusCode, unknownQuery.json().errors[0].path]).toEqual([422, '/x'])
})

test('a body full of faults gets a short list of them', async () => {
  const { app } = testApp()
  const many = Object.fromEntries(Array.from({ length: 50_000 }, (_, i) => [`k${i}`, 1]))
  const answer = await post(app, '/things', JSON.stringify(many))
  expect(answer.statusCode).toBe(422)
  expect(answer.json().errors.length).toBeLessThanOrEqual(20)
  const few = Object.fromEntries(Array.from({ length: 500 }, (_, i) => [`k${i}`, 1]))
  expect((await post(app, '/things', JSON.stringify(few))).json().errors).toHaveLength(20)
})

test('lengths count code points', async () => {
  const { app } = testApp()
  expect((await post(app, '/things', JSON.stringify({ name: '👍👍👍👍👍' }))).statusCode).toBe(200)
  expect((await post(app, '/things', JSON.stringify({ name: '👍👍👍👍👍👍' }))).statusCode).toBe(422)
})

test('half a surrogate pair anywhere, also in a key, is 422 with its path', async () => {
  const { app } = testApp()
  for (const [body, path] of [
    ['{"a":[{"b":"x\\ud800y"}]}', '/a/0/b'],
    ['"\\uDFFF"', ''],
    ['{"k\\ud83d":1}', '/k\ufffd'],
  ] as const) {
    const answer = await post(app, '/any', body)
    expect([answer.statusCode, answer.json().errors[0].path]).toEqual([422, path])
  }
  expect((await post(app, '/any', '"\\ud83d\\udc4d"')).body).toBe('"👍"')
})

test('keys such as __proto__ and constructor are plain data, small and big', async () => {
  const { app } = testApp()
  const text = '{"__proto__":{"admin":true},"constructor":{"prototype":1},"":0,"a.b":null}'
  expect((await post(app, '/any', text)).body).toBe(text)
  const big = `{"__proto__":{"admin":true},"pad":"${'x'.repeat(300 * 1024)}"}`
  expect((await post(app, '/any', big)).body).toBe(big)
  expect(({} as { admin?: boolean }).admin).toBeUndefined()
})

test('a body over 256 KiB is parsed in a thread with the same faults', async () => {
  const { app } = testApp()
  const pad = 'x'.repeat(300 * 1024)
  expect((await post(app, '/any', `{"pad":"${pad}"`)).json().code).toBe('invalid_json')
  const surrogate = await post(app, '/any', `{"pad":"${pad}","s":"\\ud800"}`)
  expect([surrogate.statusCode, surrogate.json().errors[0].path]).toEqual([422, '/s'])
})

test('an empty body is none, though its type is named', async () => {
  const { app } = testApp()
  app.post('/cancel', (request) => ({ body: request.body ?? null }))
  for (const [method, url] of [
    ['DELETE', '/things'],
    ['POST', '/cancel'],
  ] as const) {
    const headers = { 'content-type': 'application/json', 'idempotency-key': 'k' }
    const answer = await app.inject({ method, url, headers })
    expect([answer.statusCode, answer.body]).toEqual([200, method === 'POST' ? '{"body":null}' : ''])
    expect((await app.inject({ method, url, headers, payload: '' })).statusCode).toBe(200)
  }
})

test('an encoded body is 415 and says so', async () => {
  const { app } = testApp()
  for (const encoding of ['gzip', 'br', 'identity, gzip']) {
    const headers = { 'content-type': 'application/json', 'content-encoding': encoding }
    const answer = await app.inject({ method: 'POST', url: '/any', headers, payload: '{}' })
    expect([answer.statusCode, answer.json().code]).toEqual([415, 'unsupported_media_type'])
    expect(answer.json().detail).toContain('Content-Encoding')
  }
  const headers = { 'content-type': 'application/json', 'content-encoding': 'Identity' }
  expect((await app.inject({ method: 'POST', url: '/any', headers, payload: '{}' })).statusCode).toBe(200)
})

test('DELETE may carry a body', async () => {
  const { app } = testApp()
  const answer = await app.inject({
    method: 'DELETE',
    url: '/things',
    payload: '{"ids":["a"]}',
    headers: { 'content-type': 'application/json' },
  })
  expect(answer.body).toBe('{"ids":["a"]}')
})

test('too large is 413, an unknown address 404, another method 405 with Allow', async () => {
  const { app } = testApp({ bodyBytesMax: 100 })
  const large = await post(app, '/things', `"${'x'.repeat(200)}"`)
  expect([large.statusCode, large.json().code]).toEqual([413, 'payload_too_large'])
  const nothing = await app.inject('/nothing')
  expect([nothing.statusCode, nothing.json().code]).toEqual([404, 'not_found'])
  const method = await app.inject({ method: 'PUT', url: '/things/7?x=1' })
  expect([method.statusCode, method.json().code, method.headers.allow]).toEqual([
    405,
    'method_not_allowed',
    'GET, HEAD',
  ])
})

test('a verb behind a colon is a part of the address', async () => {
  const { app } = testApp()
  app.post('/things::count', () => ({ count: 1 }))
  expect((await post(app, '/things:count', '{}')).statusCode).toBe(200)
  const other = await post(app, '/things:measure', '{}')
  expect([other.statusCode, other.json().code]).toEqual([404, 'not_found'])
  const method = await app.inject({ method: 'PUT', url: '/things:count' })
  expect([method.statusCode, method.headers.allow]).toEqual([405, 'POST'])
})

test('texts of engines and of unexpected faults stay in the log', async () => {
  const { app, lines } = testApp()
  const fault = await app.inject('/fails')
  expect([fault.statusCode, fault.json().code]).toEqual([500, 'internal_error'])
  expect(fault.body).not.toContain('hunter2')
  const away = await app.inject('/away')
  expect([away.statusCode, away.json().code, away.json().retryAfter]).toEqual([
    503,
    'vector_engine_unavailable',
    1,
  ])
  expect(away.body).not.toContain('10.0.0.7')
  expect(lines.join('')).toContain('ECONNREFUSED')
})

test('retryAfter is mirrored in Retry-After, rounded up; 401 names Bearer', async () => {
  const { app } = testApp()
  const limited = await app.inject('/limited')
  expect([limited.json().retryAfter, limited.headers['retry-after']]).toEqual([1.2, '2'])
  expect((await app.inject('/secret')).headers['www-authenticate']).toBe('Bearer')
})

test('X-Request-Id is taken, echoed and logged when it is visible ASCII, else one is made', async () => {
  const { app, lines } = testApp()
  const ask = (id: string) => app.inject({ url: '/things/1', headers: { 'x-request-id': id } })
  expect((await ask('abc-1')).headers['x-request-id']).toBe('abc-1')
  expect(lines.some((line) => JSON.parse(line).request_id === 'abc-1')).toBe(true)
  for (const bad of ['', 'a b', 'é', 'x'.repeat(129)]) {
    const made = (await ask(bad)).headers['x-request-id']
    expect(made).not.toBe(bad)
    expect(made).toMatch(/^[0-9a-f-]{36}$/)
  }
  expect((await app.inject({ url: '/nothing', headers: { 'x-request-id': 'q' } })).json().request_id).toBe(
    'q',
  )
})

test('a valid traceparent travels on, another is replaced', async () => {
  const { app } = testApp()
  const good = '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01'
  const ask = async (traceparent: string) =>
    (await app.inject({ url: '/things/1', headers: { traceparent } })).json().trace
  expect(await ask(good)).toBe(good)
  const echoed = await app.inject({ url: '/nothing', headers: { traceparent: good } })
  expect(echoed.headers.traceparent).toBe(good)
  for (const bad of [
    'x',
    good.toUpperCase(),
    good.replace('4bf92f3577b34da6a3ce929d0e0e4736', '0'.repeat(32)),
  ]) {
    expect(await ask(bad)).toMatch(/^00-[0-9a-f]{32}-[0-9a-f]{16}-00$/)
  }
})

test('X-Forwarded-For counts from trusted proxies only', async () => {
  const ask = async (app: FastifyInstance) =>
    (await app.inject({ url: '/things/1', headers: { 'x-forwarded-for': '203.0.113.9' } })).json().ip
  expect(await ask(testApp().app)).toBe('127.0.0.1')
  expect(await ask(testApp({ trustedProxies: ['127.0.0.0/8'] }).app)).toBe('203.0.113.9')
  expect(await ask(testApp({ trustedProxies: ['10.0.0.0/8'] }).app)).toBe('127.0.0.1')
})

test('the probes answer, and the log line holds no query', async () => {
  let ready = false
  const { app, lines } = testApp({ ready: () => ready })
  expect((await app.inject('/livez')).statusCode).toBe(200)
  expect((await app.inject('/readyz')).statusCode).toBe(503)
  ready = true
  expect((await app.inject('/readyz')).statusCode).toBe(200)
  await app.inject('/things/1?token=hunter2')
  expect((await app.inject('/metrics')).body).toContain('http_request_duration_seconds_count{service="test"')
  expect(lines.join('')).not.toContain('hunter2')
})

test('the description is OpenAPI 3.1 and the reference page loads nothing from elsewhere', async () => {
  const { app } = testApp()
  await registerApiDescription(app, { prefix: '/v1', title: 'T', description: 'D', version: '1', tags: [] })
  const api = (await app.inject('/v1/openapi.json')).json()
  expect([api.openapi, api.paths]).toEqual(['3.1.0', {}])
  const page = await app.inject('/v1/reference/')
  expect(page.headers['content-security-policy']).toContain("default-src 'none'")
  const script = /src="([^"]+)"/.exec(page.body)?.[1]
  expect(script).toBe('js/scalar.js')
  expect((await app.inject('/v1/reference/js/scalar.js')).statusCode).toBe(200)
})

test('garbage instead of HTTP gets a problem answer and the connection ends', async () => {
  const { app } = testApp()
  await app.listen({ port: 0, host: '127.0.0.1' })
  const { port } = app.server.address() as { port: number }
  const answer = await new Promise<string>((resolve, reject) => {
    let text = ''
    const socket = connect(port, '127.0.0.1', () => socket.write('NONSENSE\r\n\r\n'))
    socket.on('data', (chunk) => {
      text += chunk
    })
    socket.on('error', reject)
    socket.on('close', () => resolve(text))
  })
  expect(answer).toContain('HTTP/1.1 400')
  expect(answer).toContain('application/problem+json')
})

test('a request in flight finishes while the app closes; the next is refused', async () => {
  const { app } = testApp()
  let release = () => {}
  const held = new Promise<void>((resolve) => {
    release = resolve
  })
  let arrive = () => {}
  const arrived = new Promise<void>((resolve) => {
    arrive = resolve
  })
  app.get('/slow', async () => {
    arrive()
    await held
    return { done: true }
  })
  await app.listen({ port: 0, host: '127.0.0.1' })
  const { port } = app.server.address() as { port: number }
  const slow = new Promise<number>((resolve, reject) => {
    httpRequest({ port, path: '/slow', headers: { connection: 'keep-alive' } }, (answer) => {
      answer.resume()
      resolve(answer.statusCode ?? 0)
    })
      .on('error', reject)
      .end()
  })
  await arrived
  const closing = app.close()
  await new Promise((resolve) => setTimeout(resolve, 50))
  release()
  expect(await slow).toBe(200)
  await closing
})
