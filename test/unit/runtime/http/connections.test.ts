import type { AddressInfo } from 'node:net'
import { pino } from 'pino'
import { Registry } from 'prom-client'
import { expect, onTestFinished, test, vi } from 'vitest'
import { createHttpApp, createHttpProcess } from '#runtime/http/app.ts'
import { type ConnectionLimits, createConnections } from '#runtime/http/connections.ts'
import { createStrangers, type StrangerLimits } from '#runtime/http/strangers.ts'
import { type RawConnection, rawConnection } from '../../../support/raw-http.ts'

const anHour = 3_600_000
const usual: ConnectionLimits & StrangerLimits = {
  connectionsMax: 100,
  addressConnectionsMax: 100,
  firstByteMs: anHour,
  lookMs: 5,
  bytesMax: 1_000_000,
  paceBytesMin: 1_000,
  paceMs: anHour,
}

/** Two interfaces of one process, with an open route that takes 1 MiB. */
async function opened(given: Partial<typeof usual> = {}, trustedProxies: string[] = []) {
  const limits = { ...usual, ...given }
  const strangers = createStrangers(limits)
  const connections = createConnections({ strangers, trustedProxies, limits })
  const ports: number[] = []
  let release = () => {}
  const held = new Promise<void>((resolve) => {
    release = resolve
  })
  for (const name of ['one', 'two']) {
    const app = createHttpApp({
      name,
      log: pino({ level: 'silent' }),
      metrics: new Registry(),
      process: { ...createHttpProcess(), connections },
      trustedProxies,
    })
    app.post('/open', { bodyLimit: 1_048_576 }, () => ({ taken: true }))
    app.get('/slow', async (_request, reply) => {
      reply.raw.writeHead(200, { 'content-type': 'text/event-stream' })
      reply.raw.write('data: begun\n\n')
      await held
      reply.raw.end()
      return reply.hijack()
    })
    await app.listen({ port: 0, host: '127.0.0.1' })
    onTestFinished(async () => {
      release()
      await app.close()
    })
    ports.push((app.server.address() as AddressInfo).port)
  }
  const opens: RawConnection[] = []
  onTestFinished(() => {
    for (const { socket } of opens) socket.destroy()
  })
  const open = async (first = '', at = 0) => {
    const one = await rawConnection(ports[at]!, first)
    opens.push(one)
    return one
  }
  return { strangers, connections, open }
}

const get = 'GET /livez HTTP/1.1\r\nHost: a\r\n\r\n'
const unfinishedHeader = (bytes: number) => `GET / HTTP/1.1\r\nHost: a\r\nX: ${'x'.repeat(bytes - 28)}`
const unfinishedBody = (announced: number) =>
  `POST /open HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: ${announced}\r\n\r\n{`

test('unfinished headers of all interfaces share the budget: the oldest goes, with 503', async () => {
  const { strangers, open } = await opened({ bytesMax: 30_000 })
  const first = await open(unfinishedHeader(10_000))
  await vi.waitUntil(() => strangers.heldBytes === 10_000)
  const second = await open(unfinishedHeader(10_000), 1)
  await vi.waitUntil(() => strangers.heldBytes === 20_000)
  await open(unfinishedHeader(15_000))
  expect(await first.ended).toMatch(/^HTTP\/1\.1 503 [\s\S]*Retry-After: 1\r\n[\s\S]*"code":"overloaded"/)
  await vi.waitUntil(() => strangers.heldBytes === 25_000)
  expect(second.text()).toBe('')
  second.socket.write('\r\n\r\n')
  expect(await second.until('HTTP/1.1')).toContain('404')
  await vi.waitUntil(() => strangers.heldBytes === 15_000)
})

test('unfinished bodies count what they announce, and the oldest goes, with 503', async () => {
  const { strangers, open } = await opened({ bytesMax: 1_000_000 })
  const first = await open(unfinishedBody(600_000))
  await vi.waitUntil(() => strangers.heldBytes === 600_000)
  const second = await open(unfinishedBody(500_000), 1)
  expect(await first.ended).toMatch(/^HTTP\/1\.1 503 /)
  expect(strangers.heldBytes).toBe(500_000)
  second.socket.write(`${' '.repeat(499_998)}}`)
  expect(await second.until('taken')).toContain('200 OK')
  expect(strangers.heldBytes).toBe(0)
})

test('a body of no announced length counts as it arrives', async () => {
  const { strangers, open } = await opened()
  const one = await open(
    'POST /open HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n',
  )
  await vi.waitUntil(() => strangers.heldBytes > 0)
  one.socket.write(`186a0\r\n{${' '.repeat(99_999)}\r\n`)
  await vi.waitUntil(() => strangers.heldBytes >= 100_000)
  one.socket.write('1\r\n}\r\n0\r\n\r\n')
  await one.until('taken')
  expect(strangers.heldBytes).toBe(0)
})

test('one byte at a time is 408, of headers as of a body', async () => {
  const { open } = await opened({ paceMs: 100 })
  for (const begin of ['GET / HTTP/1.1\r\n', unfinishedBody(1_000)]) {
    const slow = await open(begin)
    const drip = setInterval(() => slow.socket.write('x'), 10)
    expect(await slow.ended).toMatch(/^HTTP\/1\.1 408 [\s\S]*arrives too slowly/)
    clearInterval(drip)
  }
})

test('a connection that rests between requests is no slow one', async () => {
  const { strangers, open } = await opened({ paceMs: 1 })
  const one = await open(get)
  await one.until('"ok"')
  // Several looks pass.
  for (let n = 0; n < 3; n++) {
    const slow = await open('GET /livez')
    await slow.ended
  }
  one.socket.write(get)
  await one.until(/"ok"[\s\S]*"ok"/)
  expect(strangers.heldBytes).toBe(0)
})

test('a connection that never says anything is closed', async () => {
  const { open, connections } = await opened({ firstByteMs: 20 })
  expect(await (await open()).ended).toBe('')
  await vi.waitUntil(() => connections.count === 0)
})

test('where all places are taken the connection that is idle longest goes, at any interface', async () => {
  const { open, connections } = await opened({ connectionsMax: 3 })
  const first = await open(get)
  await first.until('"ok"')
  const second = await open(get, 1)
  await second.until('"ok"')
  first.socket.write(get)
  await first.until(/"ok"[\s\S]*"ok"/)
  const third = await open(get)
  await third.until('"ok"')
  const fourth = await open(get, 1)
  await fourth.until('"ok"')
  await second.ended
  expect([first, third, fourth].map(({ socket }) => socket.closed)).toEqual([false, false, false])
  await vi.waitUntil(() => connections.count === 3)
})

test('a stream that is under way keeps its place; a new connection without one is closed', async () => {
  const { open, connections } = await opened({ connectionsMax: 2 })
  const streams = [await open('GET /slow HTTP/1.1\r\nHost: a\r\n\r\n')]
  await streams[0]!.until('begun')
  streams.push(await open('GET /slow HTTP/1.1\r\nHost: a\r\n\r\n', 1))
  await streams[1]!.until('begun')
  expect(await (await open(get)).ended).toBe('')
  expect(streams.map(({ socket }) => socket.closed)).toEqual([false, false])
  expect(connections.count).toBe(2)
})

test('an address has a bound of its own, whatever it says in X-Forwarded-For; a trusted proxy has none', async () => {
  const forwarded = (n: number) => `GET /livez HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: 203.0.113.${n}\r\n\r\n`
  const countAfter = async (trusted: string[]) => {
    const { open, connections } = await opened({ addressConnectionsMax: 3 }, trusted)
    for (let n = 0; n < 6; n++) await (await open(forwarded(n))).until('"ok"')
    return connections.count
  }
  expect(await countAfter([])).toBe(3)
  expect(await countAfter(['10.0.0.0/8'])).toBe(3)
  expect(await countAfter(['127.0.0.0/8'])).toBe(6)
})
