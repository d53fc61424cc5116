/** Event streams: their form, heartbeats, and what becomes of a reader that does not read. */

import { connect } from 'node:net'
import fastify from 'fastify'
import { expect, onTestFinished, test } from 'vitest'
import { sleep } from '#lib/backoff.ts'
import { type EventStream, Json, openEventStream } from '#runtime/http/event-stream.ts'
import { eventually } from '../../../support/eventually.ts'

/** Calls `began` with each stream; resolves with the port. */
async function serve(
  began: (stream: EventStream) => void,
  options?: { heartbeatMs?: number; stalledMs?: number },
): Promise<number> {
  const app = fastify()
  app.get('/', (_request, reply) => {
    const stream = openEventStream(reply, options)
    began(stream)
    return reply.send(stream.body)
  })
  onTestFinished(() => app.close())
  return Number(new URL(await app.listen({ port: 0 })).port)
}

test('frames carry event, id and data of one line', async () => {
  const port = await serve((stream) => {
    stream.send({ data: { text: 'a\nb\r\nid: 5\n\n' } })
    stream.end({ event: 'end', id: 'x', data: null })
    stream.send({ data: 'late' })
    expect(stream.closed.aborted).toBe(true)
  })
  const answer = await fetch(`http://127.0.0.1:${port}/`)
  expect(await answer.text()).toBe(
    ': open\n\ndata: {"text":"a\\nb\\r\\nid: 5\\n\\n"}\n\nevent: end\nid: x\ndata: null\n\n',
  )
})

test('line separators in texts are escaped, whoever made the JSON', async () => {
  const text = 'a\u2028b\u2029'
  const port = await serve((stream) => {
    stream.send({ data: { text } })
    stream.end({ data: new Json(JSON.stringify({ text })) })
  })
  const answer = await (await fetch(`http://127.0.0.1:${port}/`)).text()
  expect(answer).not.toMatch(/[\u2028\u2029]/)
  const [, ...frames] = answer.trim().split('\n\n')
  expect(frames.map((frame) => JSON.parse(frame.slice('data: '.length)))).toEqual([{ text }, { text }])
})

test('heartbeats keep it open, and carry the id that was marked last', async () => {
  let stream!: EventStream
  const port = await serve(
    (one) => {
      stream = one
    },
    { heartbeatMs: 20 },
  )
  const answer = await fetch(`http://127.0.0.1:${port}/`)
  let text = ''
  const reading = (async () => {
    for await (const chunk of answer.body!) text += Buffer.from(chunk).toString()
  })()
  await eventually('it beats', () => text.includes(': heartbeat\n\n'))
  stream.mark('p7')
  await eventually('it beats with the id', () => text.includes(': heartbeat\nid: p7\n\n'))
  stream.end()
  await reading
})

test('a reader that leaves closes it', async () => {
  let stream!: EventStream
  const port = await serve((one) => {
    stream = one
  })
  const cut = new AbortController()
  const answer = await fetch(`http://127.0.0.1:${port}/`, { signal: cut.signal })
  expect(stream.closed.aborted).toBe(false)
  cut.abort()
  await answer.text().catch(() => {})
  await eventually('it is closed', () => stream.closed.aborted)
})

test('a reader that takes nothing fills the buffer, and is cut off after a while', async () => {
  let stream!: EventStream
  let roomy = false
  const port = await serve(
    (one) => {
      stream = one
    },
    { stalledMs: 1_000 },
  )
  const socket = connect(port, '127.0.0.1')
  onTestFinished(() => void socket.destroy())
  socket.on('error', () => {})
  socket.write('GET / HTTP/1.1\r\nhost: x\r\n\r\n')
  await eventually('it is open', () => stream !== undefined)
  socket.pause()
  const data = 'x'.repeat(60_000)
  // The system takes some megabytes of its own before it takes nothing more.
  const filling = setInterval(() => {
    while (stream.hasRoom() && !stream.closed.aborted) stream.send({ data })
  }, 5)
  onTestFinished(() => clearInterval(filling))
  await eventually('nothing more is taken', async () => {
    await sleep(100)
    return !stream.hasRoom()
  })
  expect(stream.body.readableLength).toBeLessThan(400 * 1024)
  void stream.room().then(() => {
    roomy = true
  })
  expect(stream.closed.aborted).toBe(false)
  await eventually('it is cut off', () => stream.closed.aborted)
  await eventually('who waited for room goes on', () => roomy)
})

test('a reader that left before it began closes it, too', async () => {
  let stream: EventStream | undefined
  const app = fastify()
  const arrived = Promise.withResolvers<void>()
  app.get('/', async (_request, reply) => {
    arrived.resolve()
    await eventually('the reader has left', () => reply.raw.destroyed)
    stream = openEventStream(reply)
    return reply.send(stream.body)
  })
  onTestFinished(() => app.close())
  const cut = new AbortController()
  const asked = fetch(await app.listen({ port: 0 }), { signal: cut.signal }).catch(() => {})
  await arrived.promise
  cut.abort()
  await asked
  await eventually('it is closed', () => stream?.closed.aborted === true)
})
