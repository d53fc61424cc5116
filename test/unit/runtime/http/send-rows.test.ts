/** Long answers: piece by piece, as fast as their reader takes them, within the budget of the process. */

import { once } from 'node:events'
import { connect } from 'node:net'
import fastify, { type FastifyInstance, type FastifyReply, type FastifyRequest } from 'fastify'
import { expect, onTestFinished, test } from 'vitest'
import {
  answers,
  answersBytesMax,
  callerBytesMax,
  createAnswers,
  heldBytesPerPiece,
} from '#runtime/http/answers.ts'
import { around, registerLargeAnswers, sendRows, wrapAnswers } from '#runtime/http/send-rows.ts'
import { eventually } from '../../../support/eventually.ts'

type Handler = (request: FastifyRequest, reply: FastifyReply) => unknown

async function serve(handler: Handler, prepare: (app: FastifyInstance) => void = () => {}): Promise<URL> {
  const app = fastify()
  app.decorateRequest('agentId', null)
  prepare(app)
  app.get('/', handler)
  onTestFinished(() => app.close())
  return new URL(await app.listen({ port: 0, host: '127.0.0.1' }))
}

const inForm = (app: FastifyInstance) =>
  wrapAnswers(app, { schemaOf: (data) => data, answer: (data) => ({ ok: true, data }) })

const row = { text: 'x'.repeat(100_000) }
const rowsAnswer = (reply: FastifyReply, pieces: AsyncIterable<object[]>) => ({
  ...around(reply),
  textOf: (one: object) => JSON.stringify(one),
  pieces,
})

async function* given(...pieces: object[][]) {
  yield* pieces
}

/** Asks, and reads no more than the first bytes. */
async function stuckAt(url: URL, asked = 1) {
  const socket = connect(Number(url.port), url.hostname)
  onTestFinished(() => void socket.destroy())
  socket.write(`GET / HTTP/1.1\r\nHost: ${url.host}\r\n\r\n`.repeat(asked))
  await once(socket, 'readable')
  return socket
}

test('pieces are one JSON document, also when some or all are empty', async () => {
  const cases = [[[{ a: 1 }], [], [{ a: 2 }, { a: 'é"' }]], [[]], [], [[{ a: 1 }]]]
  let asked = 0
  const url = await serve((_, reply) => sendRows(reply, rowsAnswer(reply, given(...cases[asked++]!))), inForm)
  for (const pieces of cases) {
    const answer = await fetch(url)
    expect(answer.headers.get('content-type')).toBe('application/json; charset=utf-8')
    expect(await answer.json()).toEqual({ ok: true, data: pieces.flat() })
  }
})

test('a reader that does not read is not read for, and one that leaves ends the reading', async () => {
  let read = 0
  let ended = false
  async function* endless() {
    try {
      for (;;) {
        read += 1
        yield [row]
      }
    } finally {
      ended = true
    }
  }
  const url = await serve((_, reply) => sendRows(reply, rowsAnswer(reply, endless())))
  const socket = await stuckAt(url)
  // What the connection holds is full when nothing is read for some turns of the loop.
  let before = -1
  await eventually('nothing more is read', async () => {
    const same = before === read
    before = read
    await new Promise((resolve) => setTimeout(resolve, 100))
    return same && before === read
  })
  expect(read * row.text.length).toBeLessThan(64 * 2 ** 20)
  socket.destroy()
  await eventually('the reading has ended', () => ended)
})

test('a fault in the middle cuts the connection', async () => {
  async function* broken() {
    yield [row]
    throw new Error('the engine is away')
  }
  const url = await serve((_, reply) => sendRows(reply, rowsAnswer(reply, broken())))
  const answer = await fetch(url)
  expect(answer.status).toBe(200)
  await expect(answer.text()).rejects.toThrow()
})

test('a reader that takes nothing is cut off, and its part of the budget is free', async () => {
  const own = createAnswers({ takenMs: 50 })
  async function* endless() {
    for (;;) yield [row]
  }
  const url = await serve((request, reply) =>
    own.hold(request, reply, async () => sendRows(reply, rowsAnswer(reply, endless()), own.of(reply))),
  )
  // The second answer waits behind the first on the same connection.
  const socket = await stuckAt(url, 2)
  expect(own.heldBytes()).toBe(2 * heldBytesPerPiece)
  await eventually('both are cut off', () => own.heldBytes() === 0)
  socket.resume()
  await once(socket, 'close')
})

test('an answer that fails gives its part back, and so does one whose caller has left', async () => {
  const own = createAnswers()
  const url = await serve((request, reply) =>
    own.hold(request, reply, async () => {
      throw new Error('no')
    }),
  )
  expect((await fetch(url)).status).toBe(500)
  expect(own.heldBytes()).toBe(0)
  const leaving = Promise.withResolvers<void>()
  const working = Promise.withResolvers<void>()
  const other = await serve((request, reply) =>
    own.hold(request, reply, async () => {
      reply.raw.once('close', leaving.resolve)
      working.resolve()
      await leaving.promise
      return sendRows(reply, rowsAnswer(reply, given([row])), own.of(reply))
    }),
  )
  const socket = connect(Number(other.port), other.hostname)
  socket.write(`GET / HTTP/1.1\r\nHost: ${other.host}\r\n\r\n`)
  await working.promise
  socket.destroy()
  await eventually('nothing is held', () => own.heldBytes() === 0)
})

test('the budget is shared in turns, is never passed, and refuses who waits too long', async () => {
  const own = createAnswers({ patienceMs: 20 })
  const taken = []
  for (let n = 0; n < answersBytesMax / callerBytesMax; n++)
    taken.push(await own.take(`c${n}`, answersBytesMax))
  expect(own.heldBytes()).toBe(answersBytesMax)
  await expect(own.take('late')).rejects.toMatchObject({ code: 'overloaded', retryAfter: 1, statusCode: 503 })
  taken.pop()!()
  const release = await own.take('late')
  release()
  for (const each of taken) each()
  await eventually('nothing is held', () => own.heldBytes() === 0)
})

test('a large text that a handler gives whole is counted too, and keeps its length', async () => {
  // More than the connection itself holds.
  const data = Array.from({ length: 400 }, () => row)
  const url = await serve(() => ({ data }), registerLargeAnswers)
  const socket = await stuckAt(url)
  expect(answers.heldBytes()).toBe(callerBytesMax)
  socket.destroy()
  await eventually('nothing is held', () => answers.heldBytes() === 0)
  const answer = await fetch(url)
  expect(answer.headers.get('content-length')).toBe(String(JSON.stringify({ data }).length))
  expect(await answer.json()).toEqual({ data })
})
