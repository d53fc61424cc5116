/** Streams of callers: how each ends, that its place is given back, and how many places there are. */

import fastify from 'fastify'
import { expect, onTestFinished, test } from 'vitest'
import { AppError } from '#lib/errors.ts'
import type { EventStream } from '#runtime/http/event-stream.ts'
import type { Caller } from '#services/access/callers/caller.ts'
import { createCallerStreams, createStreamPlaces } from '#services/access/limits/caller-streams.ts'
import { eventually } from '../../../../support/eventually.ts'
import { silentLog } from '../../../../support/relational.ts'

type Run = (stream: EventStream, signal: AbortSignal) => Promise<void>

const untilAborted: Run = (_stream, signal) =>
  new Promise((resolve) => signal.addEventListener('abort', () => resolve(), { once: true }))

async function openWorld(run: Run, caller: Partial<Caller> = {}) {
  const places = createStreamPlaces({ callerMax: 1 })
  const right = new AbortController()
  const watches = { open: 0 }
  const tokens = {
    watch() {
      watches.open += 1
      return {
        signal: right.signal,
        close() {
          watches.open -= 1
        },
      }
    },
  }
  const streams = createCallerStreams({ tokens, log: silentLog }, places)
  const app = fastify()
  app.addHook('onRequest', async (request) => {
    Object.assign(request, { caller: { uid: 'agent_1', agentId: 'whale', ...caller } })
  })
  app.setErrorHandler((error, _request, reply) => reply.code((error as AppError).statusCode).send(error))
  app.get('/', (request, reply) => streams.answer(request, reply, run))
  onTestFinished(() => app.close())
  const url = await app.listen({ port: 0 })
  const read = async () => (await fetch(url)).text()
  return { places, right, streams, url, watches, read }
}

test.each([
  ['unauthorized', {}],
  ['unauthorized', { tokenExpiresAt: Date.now() + 60_000 }],
  ['token_expired', { tokenExpiresAt: Date.now() - 1 }],
])('a right that ends is %s', async (code, caller) => {
  const { places, right, read, watches } = await openWorld(untilAborted, caller)
  const reading = read()
  await eventually('it is open', () => places.taken() === 1)
  right.abort()
  expect(await reading).toContain(`event: end\ndata: {"code":"${code}"}`)
  await eventually('nothing is left', () => places.taken() === 0 && watches.open === 0)
})

test('a run that fails says its code, and one that is done just ends', async () => {
  const failing = await openWorld(async () => {
    throw new AppError('log_unavailable', 'away')
  })
  expect(await failing.read()).toContain('event: end\ndata: {"code":"log_unavailable"}')
  const broken = await openWorld(async () => {
    throw new Error('a bug that nobody may read of')
  })
  expect(await broken.read()).toContain('{"code":"internal_error"}')
  const done = await openWorld(async (stream) => stream.send({ data: 1 }))
  expect(await done.read()).toMatch(/data: 1\n\n$/)
  for (const { places } of [failing, broken, done]) {
    await eventually('no place is taken', () => places.taken() === 0)
  }
})

test('a stop ends all, a reader that leaves its own, and more than its places nobody gets', async () => {
  const { places, streams, url, read } = await openWorld(untilAborted)
  const cut = new AbortController()
  const first = await fetch(url, { signal: cut.signal })
  expect((await fetch(url)).status).toBe(429)
  cut.abort()
  await first.text().catch(() => {})
  await eventually('its place is free', () => places.taken() === 0)
  const reading = read()
  await eventually('it is open', () => places.taken() === 1)
  streams.endAll()
  expect(await reading).toContain('event: end\ndata: {"code":"shutting_down"}')
})

const refusal = { code: 'too_many_streams', statusCode: 429, retryAfter: expect.any(Number) }
const takes = (take: () => unknown) => {
  try {
    return take()
  } catch (error) {
    return error
  }
}

test('a caller has ten places, and another one still has its own', () => {
  const places = createStreamPlaces()
  const held = Array.from({ length: 10 }, () => places.take('a'))
  expect(takes(() => places.take('a'))).toMatchObject(refusal)
  const other = places.take('b')
  held[0]!.release()
  places.take('a')
  expect(takes(() => places.take('a'))).toMatchObject(refusal)
  expect(places.taken()).toBe(11)
  other.release()
  expect(places.taken()).toBe(10)
})

test('an instance has 500 places', () => {
  const places = createStreamPlaces()
  const held = Array.from({ length: 500 }, (_, n) => places.take(`caller-${n % 50}`))
  expect(takes(() => places.take('late'))).toMatchObject(refusal)
  held[7]!.release()
  places.take('late')
  expect(places.taken()).toBe(500)
})

test('a place is given back once', () => {
  const places = createStreamPlaces({ callerMax: 2 })
  const first = places.take('a')
  places.take('a')
  first.release()
  first.release()
  expect(places.taken()).toBe(1)
  places.take('a')
  expect(takes(() => places.take('a'))).toMatchObject(refusal)
})

test('names of callers that are members of every object are nothing special', () => {
  const places = createStreamPlaces({ callerMax: 1 })
  for (const name of ['__proto__', 'constructor', '']) places.take(name).release()
  expect(places.taken()).toBe(0)
})
