import type { AddressInfo } from 'node:net'
import type { FastifyInstance } from 'fastify'
import { pino } from 'pino'
import { Registry } from 'prom-client'
import { beforeEach, expect, onTestFinished, test } from 'vitest'
import { AppError } from '#lib/errors.ts'
import { describeScope } from '#runtime/http/api/facts.ts'
import { createHttpApp } from '#runtime/http/app.ts'
import { rawConnection, writeAll } from '../../../support/raw-http.ts'

let app: FastifyInstance
let port: number
/** Bytes of bodies that were read, by the route. */
const read: string[] = []

beforeEach(async () => {
  read.length = 0
  app = createHttpApp({ name: 'test', log: pino({ level: 'silent' }), metrics: new Registry() })
  app.post('/open', (request, reply) => {
    read.push('/open')
    return reply.type('application/json').send(JSON.stringify(request.body))
  })
  app.get('/open', () => ({ read: true }))
  await app.register(async (scope) => {
    const credential = { name: 'key', description: '', bearerFormat: '', variable: '' }
    describeScope(scope, { credential })
    scope.addHook('onRequest', async ({ headers }) => {
      if (headers.authorization === undefined) throw new AppError('unauthorized', 'Send a key.')
    })
    scope.post('/known', (request, reply) => {
      read.push('/known')
      return reply.type('application/json').send(JSON.stringify(request.body))
    })
  })
  await app.listen({ port: 0, host: '127.0.0.1' })
  const { server } = app
  port = (server.address() as AddressInfo).port
  onTestFinished(() => app.close())
})

const head = (line: string, ...more: string[]) =>
  `${[`${line} HTTP/1.1`, 'Host: a', 'Content-Type: application/json', ...more].join('\r\n')}\r\n\r\n`

const fiveMegabytes = 5_000_000

const refusals: [string, string, number][] = [
  ['an address that does not exist', 'POST /nothing', 404],
  ['a method that is not allowed', 'PUT /open', 405],
  ['a missing credential', 'POST /known', 401],
  ['a body that is too large', 'POST /open', 413],
]

test.each(refusals)('%s is answered to who writes 5 MB before it reads', async (_what, line, status) => {
  for (const framing of ['length', 'chunked']) {
    const one = await rawConnection(port)
    const body = Buffer.alloc(fiveMegabytes, ' ')
    one.socket.pause()
    if (framing === 'length') {
      await writeAll(one.socket, head(line, `Content-Length: ${fiveMegabytes}`))
      await writeAll(one.socket, body)
    } else {
      await writeAll(one.socket, head(line, 'Transfer-Encoding: chunked'))
      await writeAll(one.socket, `${fiveMegabytes.toString(16)}\r\n`)
      await writeAll(one.socket, body)
      await writeAll(one.socket, '\r\n0\r\n\r\n')
    }
    one.socket.resume()
    const text = await one.ended
    expect(text).toMatch(new RegExp(`^HTTP/1\\.1 ${status} `))
    expect(text).toMatch(/connection: close/i)
    // The answer is whole.
    expect(JSON.parse(text.slice(text.indexOf('\r\n\r\n'))).status).toBe(status)
  }
  expect(read).toEqual([])
})

test.each(refusals)('%s is answered to fetch with 5 MB', async (_what, line, status) => {
  const [method = '', path] = line.split(' ')
  const answer = await fetch(`http://127.0.0.1:${port}${path}`, {
    method,
    headers: { 'content-type': 'application/json' },
    body: Buffer.alloc(fiveMegabytes, ' '),
  })
  expect([answer.status, ((await answer.json()) as { status: number }).status]).toEqual([status, status])
})

test.each(refusals.slice(0, 3))('%s is answered before the body comes', async (_what, line, status) => {
  for (const length of [10, 100_000_000]) {
    const one = await rawConnection(port, head(line, `Content-Length: ${length}`))
    expect(await one.until('request_id')).toContain(` ${status} `)
    one.socket.destroy()
  }
})

test('a connection goes on behind a refusal with a small body, and its rest is no request', async () => {
  for (const [, line, status] of refusals.slice(0, 3)) {
    const one = await rawConnection(port, head(line, 'Content-Length: 48'))
    expect(await one.until('request_id')).toContain(` ${status} `)
    one.socket.write('GET /open HTTP/1.1\r\nHost: a\r\nX-Of-The-Body: 1\r\n\r\n'.slice(0, 48))
    one.socket.write(head('GET /open'))
    const text = await one.until('{"read":true}')
    expect(text.match(/HTTP\/1\.1 200/g)).toHaveLength(1)
    one.socket.destroy()
  }
})

test('a request pipelined behind a refusal that closes does not run', async () => {
  const body = `{"a":"${'x'.repeat(100_000)}"}`
  const second = head('POST /open', 'Content-Length: 2')
  const one = await rawConnection(
    port,
    `${head('POST /nothing', `Content-Length: ${body.length}`)}${body}${second}{}`,
  )
  expect((await one.ended).match(/HTTP\/1\.1/g)).toHaveLength(1)
  expect(read).toEqual([])
})

test('pipelined requests are answered in their order', async () => {
  const one = await rawConnection(
    port,
    `${head('POST /open', 'Content-Length: 7')}{"a":1}${head('POST /nothing', 'Content-Length: 2')}{}${head('GET /open')}`,
  )
  const text = await one.until('{"read":true}')
  expect(text).toMatch(/ 200 [\s\S]*{"a":1}[\s\S]* 404 [\s\S]* 200 /)
  one.socket.destroy()
})

test('who waits for 100 Continue gets it where the body is wanted, else the refusal alone', async () => {
  const expecting = (line: string, length: number) =>
    head(line, 'Expect: 100-continue', `Content-Length: ${length}`)
  const wanted = await rawConnection(port, expecting('POST /open', 7))
  await wanted.until('HTTP/1.1 100 Continue\r\n\r\n')
  wanted.socket.write('{"a":1}')
  expect(await wanted.until('{"a":1}')).toContain('HTTP/1.1 200')
  wanted.socket.destroy()
  for (const [, line, status] of refusals) {
    const one = await rawConnection(port, expecting(line, 50_000))
    expect(await one.until('request_id')).toMatch(new RegExp(`^HTTP/1\\.1 ${status} `))
    // Its sender may send the body all the same.
    await writeAll(one.socket, ' '.repeat(50_000))
    expect(await one.ended).not.toContain('100 Continue')
  }
  expect(read).toEqual(['/open'])
})

test('HTTP/1.0 gets its refusal, and the connection ends', async () => {
  const one = await rawConnection(port, `POST /nothing HTTP/1.0\r\nContent-Length: ${fiveMegabytes}\r\n\r\n`)
  await writeAll(one.socket, Buffer.alloc(fiveMegabytes))
  one.socket.end()
  expect(await one.ended).toMatch(/^HTTP\/1\.\d 404 [\s\S]*request_id/)
})

test('a body of an open route has 16 KiB, one behind a credential 1 MiB', async () => {
  const send = async (path: string, bytes: number) =>
    (
      await fetch(`http://127.0.0.1:${port}${path}`, {
        method: 'POST',
        headers: { 'content-type': 'application/json', authorization: 'x' },
        body: `"${'x'.repeat(bytes - 2)}"`,
      })
    ).status
  expect(await send('/open', 16_384)).toBe(200)
  expect(await send('/open', 16_385)).toBe(413)
  expect(await send('/known', 1_048_576)).toBe(200)
  expect(await send('/known', 1_048_577)).toBe(413)
})

test('headers beyond 16 KiB are 431 to who writes a megabyte of them first', async () => {
  const short = await rawConnection(port, head('GET /open', `X: ${'x'.repeat(15_000)}`))
  await short.until('{"read":true}')
  short.socket.destroy()
  for (const bytes of [17_000, 1_000_000]) {
    const one = await rawConnection(port)
    one.socket.pause()
    await writeAll(one.socket, `GET /open HTTP/1.1\r\nHost: a\r\nX: ${'x'.repeat(bytes)}\r\n\r\n`)
    one.socket.resume()
    expect(await one.ended).toMatch(/^HTTP\/1\.1 431 [\s\S]*"code":"bad_request"/)
  }
})
