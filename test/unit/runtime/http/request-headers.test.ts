/** Headers of every answer: its type is not guessed, and what depends on a caller is kept by nobody. */

import { connect } from 'node:net'
import { Readable } from 'node:stream'
import { text } from 'node:stream/consumers'
import type { FastifyInstance } from 'fastify'
import { pino } from 'pino'
import { Registry } from 'prom-client'
import { expect, onTestFinished, test } from 'vitest'
import { AppError } from '#lib/errors.ts'
import { describeScope } from '#runtime/http/api/facts.ts'
import { createHttpApp } from '#runtime/http/app.ts'

const credential = { name: 'key', description: 'D', bearerFormat: 'F', variable: 'KEY' }

function opened(): FastifyInstance {
  const app = createHttpApp({ name: 'test', log: pino({ level: 'silent' }), metrics: new Registry() })
  app.get('/open', (_request, reply) => reply.send({ a: 1 }))
  app.get('/open/kept', (_request, reply) => reply.header('cache-control', 'max-age=60').send({ a: 1 }))
  app.register(async (scope) => {
    describeScope(scope, { credential })
    scope.get('/own', (_request, reply) => reply.send({ a: 1 }))
    scope.get('/own/stream', (_request, reply) => reply.send(Readable.from(['a'])))
    scope.get('/own/kept', (_request, reply) => reply.header('cache-control', 'no-store').send('a'))
    scope.get('/own/refused', () => {
      throw new AppError('unauthorized', 'Send a key.')
    })
  })
  onTestFinished(() => app.close())
  return app
}

const given = { authorization: 'Bearer x' }
const nobody = 'private, no-store'

test.each([
  ['/own', {}, nobody],
  ['/own/stream', {}, nobody],
  ['/own/refused', {}, nobody],
  ['/own/kept', given, 'no-store'],
  ['/open', {}, undefined],
  ['/open', given, nobody],
  ['/open', { cookie: 'a=b' }, nobody],
  ['/open/kept', given, 'max-age=60'],
  ['/nowhere', {}, undefined],
  ['/nowhere', given, nobody],
  ['/%zz', {}, undefined],
  ['/livez', {}, undefined],
])('%s with %j may be kept as it says: %s', async (url, headers, kept) => {
  const answer = await opened().inject({ url, headers })
  expect([answer.headers['cache-control'], answer.headers['x-content-type-options']]).toEqual([
    kept,
    'nosniff',
  ])
})

test('garbage instead of HTTP gets the same headers', async () => {
  const app = opened()
  const { port } = new URL(await app.listen({ port: 0, host: '127.0.0.1' }))
  const socket = connect(Number(port), '127.0.0.1')
  socket.end('nonsense\r\n\r\n')
  expect(await text(socket)).toMatch(/^HTTP\/1\.1 400 [\s\S]*\r\nx-content-type-options: nosniff\r\n/)
})
