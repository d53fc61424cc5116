/** The server span of a request: whose child it is, and that it ends however the request does. */

import { once } from 'node:events'
import { request } from 'node:http'
import type { AddressInfo } from 'node:net'
import { SpanKind } from '@opentelemetry/api'
import type { FastifyInstance } from 'fastify'
import pino from 'pino'
import { Registry } from 'prom-client'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { AppError } from '#lib/errors.ts'
import { createHttpApp } from '#runtime/http/app.ts'
import { openTracing } from '#runtime/observe/tracing/open-tracing.ts'
import type { Tracing } from '#runtime/observe/tracing/tracing.ts'
import { type OtlpReceiver, openOtlpReceiver } from '../../../support/otlp-receiver.ts'

let receiver: OtlpReceiver
let tracing: Tracing
let app: FastifyInstance
const lines: string[] = []
beforeEach(async () => {
  receiver = await openOtlpReceiver()
  lines.length = 0
  const log = pino({}, { write: (line: string) => lines.push(line) })
  const metrics = new Registry()
  const env = { OTEL_EXPORTER_OTLP_ENDPOINT: receiver.url, OTEL_BSP_SCHEDULE_DELAY: '10' }
  tracing = await openTracing({ env, serviceName: 'test', instanceId: 'one', log, metrics })
  app = createHttpApp({ name: 'test', log, metrics, tracing })
})
afterEach(async () => {
  await app.close()
  await tracing.close()
  await receiver.close()
})

test('what a handler does is its child, also behind the body of a request', async () => {
  app.post('/things/:id', { bodyLimit: 200_000 }, async () => {
    await new Promise((resolve) => setImmediate(resolve))
    tracing.beginChild('inner', { kind: SpanKind.INTERNAL }).end()
    return {}
  })
  await app.listen({ host: '127.0.0.1', port: 0 })
  const { port } = app.server.address() as AddressInfo
  await fetch(`http://127.0.0.1:${port}/things/7`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ text: 'x'.repeat(100_000) }),
  })
  const chain = await receiver.chainTo('the inner span', 'POST /things/:id', ({ name }) => name === 'inner')
  expect(chain).toHaveLength(2)
  expect(JSON.parse(lines.find((line) => line.includes('http.request'))!)).toMatchObject({
    trace_id: chain[0]!.traceId,
  })
})

test('a fault of the server is an error, and work behind the answer is no child any more', async () => {
  const answered = Promise.withResolvers<void>()
  let late: Promise<unknown> | undefined
  app.get('/broken', async () => {
    late = answered.promise.then(() => tracing.beginChild('late', { kind: SpanKind.INTERNAL }).isRecording())
    throw new AppError('log_unavailable', 'The event log does not answer.')
  })
  expect((await app.inject('/broken')).statusCode).toBe(503)
  const span = await receiver.spanOf('the span', ({ name }) => name === 'GET /broken')
  expect(span).toMatchObject({ isError: true, attributes: { 'error.type': 'log_unavailable' } })
  answered.resolve()
  expect(await late).toBe(false)
})

test('it ends when the caller goes before the answer does', async () => {
  app.get('/stream', (_request, reply) => {
    reply.hijack()
    reply.raw.writeHead(200).write('beginning')
  })
  const arrived = Promise.withResolvers<void>()
  app.get('/silent', () => {
    arrived.resolve()
    return new Promise(() => {})
  })
  await app.listen({ host: '127.0.0.1', port: 0 })
  const { port } = app.server.address() as AddressInfo
  const stream = request({ port, path: '/stream' }).end()
  const [answer] = await once(stream, 'response')
  answer.destroy()
  const silent = request({ port, path: '/silent' }).end()
  silent.on('error', () => {})
  await arrived.promise
  silent.destroy()
  await receiver.spanOf('the stream', ({ name }) => name === 'GET /stream')
  const span = await receiver.spanOf('the request', ({ name }) => name === 'GET /silent')
  expect(span.attributes).not.toHaveProperty('http.response.status_code')
})
