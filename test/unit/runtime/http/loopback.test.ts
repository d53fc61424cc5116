/** An interface for callers on this machine alone. */

import { request } from 'node:http'
import { connect, createServer } from 'node:net'
import { networkInterfaces } from 'node:os'
import pino from 'pino'
import { expect, onTestFinished, test } from 'vitest'
import { createHttpApp } from '#runtime/http/app.ts'
import { listenOnLoopback, loopbackFault, loopbackPort } from '#runtime/http/loopback.ts'
import { createMetrics } from '#runtime/observe/metrics.ts'

const log = pino({ level: 'silent' })
const hosts = ['127.0.0.1', '::1'].filter((host) =>
  Object.values(networkInterfaces()).some((all) => all?.some(({ address }) => address === host)),
)

function createApp() {
  const app = createHttpApp({ name: 'test', log, metrics: createMetrics(), loopbackOnly: true })
  app.post('/echo', (request, reply) => reply.send({ got: request.body }))
  onTestFinished(() => app.close())
  return app
}

test.each([
  ['127.0.0.1:9191', 9_191],
  ['localhost:9191', 9_191],
  ['LOCALHOST:1', 1],
  ['[::1]:9191', 9_191],
  ['http://localhost:9191', 9_191],
  ['http://127.0.0.1:9191/', 9_191],
  ['http://localhost', 9_090],
  ['http://localhost:80', 80],
  ['localhost', 9_090],
  ['127.0.0.1:0', 0],
])('%s is the loopback', (text, port) => {
  expect(loopbackFault(text)).toBeNull()
  expect(loopbackPort(text, 9_090)).toBe(port)
})

test.each([
  '0.0.0.0:9090',
  '::1:9090',
  '[::]:9090',
  '10.0.0.1:9090',
  '127.0.0.2:9090',
  'relay:9090',
  'localhost.example:9090',
  '127.0.0.1.example:9090',
  'http://relay:9090',
  'https://localhost:9090',
  'ftp://localhost:9090',
  'localhost:99999',
  'localhost:9090/path',
  'user@localhost:9090',
  ':9090',
  'a b',
])('%s is refused, naming the allowed forms', (text) => {
  expect(loopbackFault(text)).toMatch(/localhost, 127\.0\.0\.1/)
})

interface Peer {
  host?: string
  origin?: string
  from?: string
}

async function answerTo({ host = 'localhost:9090', origin, from = '127.0.0.1' }: Peer, path = '/echo') {
  const answer = await createApp().inject({
    method: path === '/echo' ? 'POST' : 'GET',
    url: path,
    remoteAddress: from,
    headers: { host, ...(origin === undefined ? {} : { origin }), 'x-forwarded-for': '127.0.0.1' },
    ...(path === '/echo' ? { payload: { a: 1 } } : {}),
  })
  return [answer.statusCode, answer.json().code] as const
}

test.each<Peer>([
  {},
  { from: '127.9.9.9' },
  { from: '::1', host: '[::1]:9090' },
  { from: '::ffff:127.0.0.1' },
  { host: '127.0.0.1' },
  { host: 'LocalHost:1' },
  { host: 'relay.localhost:9090' },
  { origin: 'http://localhost:3000' },
  { origin: 'http://127.0.0.1:9090' },
  { origin: 'https://[::1]' },
])('of this machine: %j', async (peer) => {
  expect((await answerTo(peer))[0]).toBe(200)
})

test.each<Peer>([
  { from: '10.0.0.7' },
  { from: '192.168.1.5' },
  { from: '::ffff:10.0.0.7' },
  { from: 'fe80::1' },
  { host: 'rebound.example:9090' },
  { host: '127.0.0.1.rebound.example' },
  { host: 'localhost.example' },
  { host: '10.0.0.7:9090' },
  { host: '0.0.0.0:9090' },
  { host: 'evil@localhost' },
  { host: 'localhost:9090, evil.example' },
  { origin: 'https://evil.example' },
  { origin: 'http://localhost.evil.example' },
  { origin: 'null' },
  { origin: 'file://' },
])('refused: %j', async (peer) => {
  expect(await answerTo(peer)).toEqual([403, 'forbidden'])
  for (const path of ['/metrics', '/livez', '/nowhere']) {
    expect(await answerTo(peer, path)).toEqual([403, 'forbidden'])
  }
})

test('a page of another origin cannot post without asking first, and asking is refused', async () => {
  const app = createApp()
  const simple = await app.inject({
    method: 'POST',
    url: '/echo',
    headers: { host: 'localhost', 'content-type': 'text/plain' },
    payload: '{"a":1}',
  })
  expect([simple.statusCode, simple.json().code]).toEqual([415, 'unsupported_media_type'])
  const preflight = await app.inject({
    method: 'OPTIONS',
    url: '/echo',
    headers: { host: 'localhost', origin: 'https://evil.example', 'access-control-request-method': 'POST' },
  })
  expect(preflight.statusCode).toBe(403)
  expect(Object.keys(preflight.headers).filter((name) => name.startsWith('access-control'))).toEqual([])
})

test.each([
  ['two Hosts', '/echo', 'Host: localhost\r\nHost: evil.example\r\n'],
  ['two Hosts, the other way round', '/echo', 'Host: evil.example\r\nHost: localhost\r\n'],
  ['a whole URL as address', 'http://evil.example/echo', 'Host: localhost\r\n'],
  ['two Origins', '/echo', 'Host: localhost\r\nOrigin: http://localhost\r\nOrigin: https://evil.example\r\n'],
])('refused on the wire: %s', async (_, address, headers) => {
  const app = createApp()
  const listening = await listenOnLoopback(app, 0)
  onTestFinished(() => listening.close())
  const answer = await new Promise<string>((resolve) => {
    const socket = connect(listening.port, '127.0.0.1')
    let text = ''
    socket.on('data', (bytes) => {
      text += bytes
    })
    socket.on('close', () => resolve(text))
    socket.write(
      `POST ${address} HTTP/1.1\r\n${headers}Content-Type: application/json\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}`,
    )
  })
  expect(answer).toMatch(/^HTTP\/1\.1 403 /)
})

function post(host: string, port: number): Promise<number> {
  return new Promise((resolve, reject) => {
    const headers = { 'content-type': 'application/json', host: 'localhost' }
    const sent = request({ host, port, method: 'POST', path: '/echo', headers, agent: false }, (answer) => {
      answer.resume().on('end', () => resolve(answer.statusCode as number))
    })
    sent.on('error', reject).end('{"a":1}')
  })
}

test('one port answers on 127.0.0.1 and, where there is IPv6, on ::1, and nowhere when it is closed', async () => {
  const app = createApp()
  const listening = await listenOnLoopback(app, 0)
  for (const host of hosts) expect(await post(host, listening.port)).toBe(200)
  await listening.close()
  await app.close()
  for (const host of hosts) {
    await expect(post(host, listening.port)).rejects.toMatchObject({ code: 'ECONNREFUSED' })
  }
})

test.each(hosts)('a port that another process has on %s is not shared', async (host) => {
  const other = createServer()
  await new Promise<void>((resolve) => other.listen({ host, port: 0 }, resolve))
  onTestFinished(() => void other.close())
  const { port } = other.address() as { port: number }
  await expect(listenOnLoopback(createApp(), port)).rejects.toMatchObject({ code: 'EADDRINUSE' })
})
