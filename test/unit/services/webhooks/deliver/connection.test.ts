/** One connection of a courier against receivers and resolvers that behave as badly as they can. */

import { readdirSync } from 'node:fs'
import type { AddressInfo } from 'node:net'
import { createServer, type Socket } from 'node:net'
import { describe, expect, onTestFinished, test } from 'vitest'
import { Connection, type Request } from '#services/webhooks/deliver/connection.ts'
import { createNameLookup } from '#services/webhooks/targets/name-lookup.ts'
import { type DnsServer, openDnsServer } from '#test/support/dns-server.ts'
import { eventually } from '#test/support/eventually.ts'
import { type Answer, openWebhookSink, type WebhookSink } from '#test/support/webhook-sink.ts'

const request = () => ({ headers: ['x-attempt', '1'], body: Buffer.from('{}') })
const names = createNameLookup()

async function sinkOf(answer: WebhookSink['answer']): Promise<WebhookSink> {
  const sink = await openWebhookSink(answer)
  onTestFinished(() => sink.close())
  return sink
}

function connect(
  url: string,
  options: { callMs?: number; names?: Parameters<typeof createNameLookup>[0] } = {},
): Connection {
  const { lookup } = options.names ? createNameLookup(options.names) : names
  const { callMs = 10_000 } = options
  const connection = new Connection({ url: new URL(url), lookup, callMs })
  onTestFinished(() => connection.close())
  return connection
}

const post = (connection: Connection, sent: Request) => connection.send(sent)

async function outcome(answer: Answer, callMs = 10_000) {
  const sink = await sinkOf(() => answer)
  const { status, fault } = await post(connect(sink.url, { callMs }), request())
  return status ?? fault
}

describe('a call', () => {
  test('has one clock for all of it: no answer, a head alone, a body byte by byte', async () => {
    expect(await outcome({ hang: true }, 200)).toBe('timeout')
    expect(await outcome({ dripMs: 20 }, 300)).toBe('timeout')
    const silent = createServer(() => {})
    await new Promise<void>((resolve) => silent.listen(0, '127.0.0.1', resolve))
    onTestFinished(() => void silent.close())
    const { port } = silent.address() as AddressInfo
    // TLS never begins.
    const secure = connect(`https://127.0.0.1:${port}/`, { callMs: 200 })
    expect(await post(secure, request())).toMatchObject({ status: null, fault: 'timeout' })
  })

  test('has its own time, also behind others on the same connection', async () => {
    const callMs = 1_500
    let calls = 0
    const sink = await sinkOf(() => (++calls < 3 ? { status: 200 } : { hang: true }))
    const connection = connect(sink.url, { callMs })
    for (let n = 0; n < 2; n++) {
      expect(await post(connection, request())).toMatchObject({ status: 200 })
      await new Promise((resolve) => setTimeout(resolve, callMs * 0.4))
    }
    const { fault, tookMs } = await post(connection, request())
    expect(fault).toBe('timeout')
    expect(tookMs).toBeGreaterThanOrEqual(callMs)
  })

  test('has its whole time, and ends by it, also after the connection was idle for longer than a call may take', async () => {
    const callMs = 1_000
    let calls = 0
    const sink = await sinkOf(() => (++calls < 2 ? { status: 200 } : { hang: true }))
    const connection = connect(sink.url, { callMs })
    expect(await post(connection, request())).toMatchObject({ status: 200 })
    await new Promise((resolve) => setTimeout(resolve, callMs * 2))
    const { fault, tookMs } = await post(connection, request())
    expect(fault).toBe('timeout')
    // Node rounds timers to whole milliseconds.
    expect(tookMs).toBeGreaterThanOrEqual(callMs - 2)
  })

  test('reads no more of an answer than its limit, and the status counts', async () => {
    const sink = await sinkOf(() => ({ floodBytes: 512 * 1024 * 1024, status: 200 }))
    const { status, fault } = await post(connect(sink.url), request())
    expect(status).toBe(200)
    // Its limit ended the call, not its time.
    expect(fault).toBeNull()
    await eventually('its connection is gone', () => sink.inFlight === 0)
  })

  test('does not count the status of an answer that breaks off', async () => {
    const server = createServer((socket) => {
      socket.on('error', () => {})
      socket.on('data', () => {
        socket.write('HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf')
        setTimeout(() => socket.destroy(), 20)
      })
    })
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    onTestFinished(() => void server.close())
    const { port } = server.address() as AddressInfo
    const result = await post(connect(`http://127.0.0.1:${port}/`), request())
    expect(result).toMatchObject({ status: null, fault: 'reset' })
  })

  test('reads past interim answers that nobody asked for, whatever pieces they come in', async () => {
    const interim =
      'HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 100 \r\n\r\n'
    const answer = 'HTTP/1.1 202 Accepted\r\nContent-Length: 21\r\n\r\nHTTP/1.1 100 Continue'
    const bytes = Buffer.from(interim + answer)
    let pieceBytes = 1
    let requests = 0
    const server = createServer((socket) => {
      socket.setNoDelay(true)
      socket.on('error', () => {})
      socket.on('data', async (data) => {
        if (!String(data).startsWith('POST')) return
        requests++
        for (let at = 0; at < bytes.length; at += pieceBytes) {
          socket.write(bytes.subarray(at, at + pieceBytes))
          await new Promise((resolve) => setImmediate(resolve))
        }
      })
    })
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    onTestFinished(() => void server.close())
    const connection = connect(`http://127.0.0.1:${(server.address() as AddressInfo).port}/`)
    for (pieceBytes of [1, 20, 23, bytes.length]) {
      expect(await post(connection, request())).toMatchObject({ status: 202, fault: null })
    }
    expect(requests).toBe(4)
  })

  test('does not wait for ever behind interim answers', async () => {
    const server = createServer((socket) => {
      socket.on('error', () => {})
      socket.on('data', () => socket.write('HTTP/1.1 100 Continue\r\n\r\n'.repeat(2_000)))
    })
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    onTestFinished(() => void server.close())
    const { port } = server.address() as AddressInfo
    expect((await post(connect(`http://127.0.0.1:${port}/`), request())).fault).toBe('reset')
  })

  test('follows no redirect, and reports where it led', async () => {
    const location = 'http://127.0.0.1:9/elsewhere'
    const sink = await sinkOf(() => ({ status: 302, headers: { location } }))
    expect(await post(connect(sink.url), request())).toMatchObject({ status: 302, location })
    expect(sink.received).toHaveLength(1)
  })

  test('distinguishes faults by short codes', async () => {
    expect(await outcome({ reset: true })).toBe('reset')
    expect(await outcome({ garbage: 'SSH-2.0-OpenSSH_9.2\r\n' })).toBe('protocol')
    expect(await outcome({ status: 418 })).toBe(418)
    const sink = await sinkOf(() => ({}))
    const secure = sink.url.replace('http:', 'https:')
    expect(await post(connect(secure), request())).toMatchObject({ fault: 'tls' })
    await sink.down()
    expect(await post(connect(sink.url), request())).toMatchObject({ fault: 'connect' })
    const wrong = { headers: ['x-key', 'line\nbreak'], body: Buffer.alloc(0) }
    expect(await post(connect(sink.url), wrong)).toMatchObject({ fault: 'unsendable' })
  })

  test('goes over the connection of the one before', async () => {
    const sink = await sinkOf(() => ({ status: 200, body: 'ok' }))
    const connection = connect(sink.url)
    for (let n = 0; n < 5; n++) expect(await post(connection, request())).toMatchObject({ status: 200 })
    expect(sink.connections).toBe(1)
  })

  test('is never repeated behind its caller’s back when a kept connection was closed on it', async () => {
    const arrived: string[] = []
    const answered = new Set<Socket>()
    const server = createServer((socket) => {
      socket.on('error', () => {})
      socket.on('data', (chunk) => {
        arrived.push(chunk.toString('latin1'))
        // The second request on a connection is read, and the connection closed without an answer.
        if (answered.has(socket)) return void socket.destroy()
        answered.add(socket)
        socket.write('HTTP/1.1 204 No Content\r\n\r\n')
      })
    })
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    onTestFinished(() => void server.close())
    const connection = connect(`http://127.0.0.1:${(server.address() as AddressInfo).port}/`)
    expect(await post(connection, request())).toMatchObject({ status: 204 })
    expect(await post(connection, request())).toMatchObject({ status: null, fault: 'reset' })
    expect(arrived.filter((one) => one.startsWith('POST'))).toHaveLength(2)
    expect(await post(connection, request())).toMatchObject({ status: 204 })
  })

  test.skipIf(process.platform !== 'linux')('leaves no socket behind when its end is forced', async () => {
    const sink = await sinkOf(() => ({ hang: true }))
    for (let n = 0; n < 20; n++) await post(connect(sink.url, { callMs: 10 }), request())
    await eventually('all are closed', () => sink.inFlight === 0)
    const sockets = readdirSync('/proc/self/fd').length
    for (let n = 0; n < 20; n++) await post(connect(sink.url, { callMs: 10 }), request())
    await eventually('all are closed again', () => readdirSync('/proc/self/fd').length <= sockets + 2)
  })

  test('ends at once when it is aborted, and says so', async () => {
    const sink = await sinkOf(() => ({ hang: true }))
    const stop = new AbortController()
    const call = post(connect(sink.url), { ...request(), signal: stop.signal })
    await eventually('it arrived', () => sink.received.length === 1)
    stop.abort()
    expect(await call).toMatchObject({ status: null, fault: 'stopped' })
    const late = post(connect(sink.url), { ...request(), signal: AbortSignal.abort() })
    expect(await late).toMatchObject({ fault: 'stopped' })
  })
})

describe('a name', () => {
  async function dns(answer: DnsServer['answer']): Promise<DnsServer> {
    const server = await openDnsServer(answer)
    onTestFinished(() => server.close())
    return server
  }

  test('that changes to a link-local address is not connected to: DNS rebinding', async () => {
    const sink = await sinkOf(() => ({ hangUp: true }))
    const { port } = new URL(sink.url)
    let address = '127.0.0.1'
    const server = await dns(() => [address])
    const connection = connect(`http://hook.example.test:${port}/`, { names: { servers: [server.address] } })
    expect(await post(connection, request())).toMatchObject({ status: 204 })
    address = '169.254.169.254'
    await eventually('the new address was asked for', async () => {
      const { fault } = await post(connection, request())
      return fault === 'blocked'
    })
    expect(server.asked).toContain('hook.example.test')
  })

  test('whose DNS is dead fails within its own time and holds up no other', async () => {
    const sink = await sinkOf(() => ({}))
    const { port } = new URL(sink.url)
    const server = await dns((name) => (name.startsWith('dead') ? undefined : ['127.0.0.1']))
    const options = { callMs: 600, names: { servers: [server.address] } }
    const { lookup } = createNameLookup(options.names)
    const open = (host: string) => {
      const connection = new Connection({ url: new URL(`http://${host}:${port}/`), lookup, callMs: 5_000 })
      onTestFinished(() => connection.close())
      return connection
    }
    const dead = Array.from({ length: 20 }, (_, n) => post(open(`dead-${n}.example.test`), request()))
    const alive = await post(open('alive.example.test'), request())
    expect(alive).toMatchObject({ status: 204 })
    expect(sink.received).toHaveLength(1)
    const ended = await Promise.all(dead)
    for (const { fault } of ended) expect(['dns', 'timeout']).toContain(fault)
  })

  test('is asked for once by many, and kept for as long as its answer says', async () => {
    const server = await dns(() => ['127.0.0.1'])
    const { lookup } = createNameLookup({ servers: [server.address] })
    const ask = () =>
      new Promise((resolve) => lookup('many.example.test', {}, (_, address) => resolve(address)))
    expect(await Promise.all(Array.from({ length: 10 }, ask))).toEqual(Array(10).fill('127.0.0.1'))
    expect(await ask()).toBe('127.0.0.1')
    // Once for each kind of address.
    expect(server.asked.length).toBeLessThanOrEqual(2)
  })

  test('that does not exist is a fault of the name', async () => {
    const server = await dns(() => null)
    const connection = connect('http://nobody.invalid/', { names: { servers: [server.address] } })
    expect(await post(connection, request())).toMatchObject({ status: null, fault: 'dns' })
  })
})
