/** A receiver of spans that is away or silent holds nothing up: what cannot be sent is dropped and counted. */

import { SpanKind } from '@opentelemetry/api'
import pino from 'pino'
import { Registry } from 'prom-client'
import { expect, onTestFinished, test } from 'vitest'
import { createHttpApp } from '#runtime/http/app.ts'
import { openTracing } from '#runtime/observe/tracing/open-tracing.ts'
import { eventually } from '../../../../support/eventually.ts'
import { openOtlpReceiver } from '../../../../support/otlp-receiver.ts'

const receiverSecret = 'x-token=receiver-secret'

async function open(env: Record<string, string>) {
  const lines: string[] = []
  const metrics = new Registry()
  const tracing = await openTracing({
    env: { OTEL_BSP_SCHEDULE_DELAY: '10', OTEL_EXPORTER_OTLP_HEADERS: receiverSecret, ...env },
    serviceName: 'test',
    instanceId: 'one',
    log: pino({}, { write: (line: string) => lines.push(line) }),
    metrics,
  })
  const counted = async (result: string) => {
    const { values } = await metrics.getSingleMetric('flotilla_trace_spans_total')!.get()
    return values.find(({ labels }) => labels.result === result)?.value ?? 0
  }
  return { tracing, metrics, lines, counted }
}

test('one that hangs: requests are answered, spans beyond the queue are counted, and the stop ends', async () => {
  const receiver = await openOtlpReceiver()
  onTestFinished(() => receiver.close())
  receiver.mode = 'hang'
  const { tracing, metrics, counted, lines } = await open({
    OTEL_EXPORTER_OTLP_ENDPOINT: receiver.url,
    OTEL_EXPORTER_OTLP_TIMEOUT: '60000',
    OTEL_BSP_MAX_QUEUE_SIZE: '5',
  })
  const app = createHttpApp({ name: 'test', log: pino({ level: 'silent' }), metrics, tracing })
  app.get('/things/:id', async () => ({}))
  for (let n = 0; n < 30; n++) expect((await app.inject(`/things/${n}`)).statusCode).toBe(200)
  await eventually('it was asked', () => receiver.requests.length > 0)
  for (let n = 0; n < 30; n++) expect((await app.inject(`/things/${n}`)).statusCode).toBe(200)
  expect(await counted('dropped')).toBeGreaterThan(0)
  await app.close()
  // It would wait for a minute.
  await tracing.close()
  expect(lines.join('')).toContain('tracing.not-all-sent')
  expect(receiver.spans).toEqual([])
})

test('one that refuses connections: spans are counted as failed, and one line says so', async () => {
  const { tracing, counted, lines } = await open({
    OTEL_EXPORTER_OTLP_ENDPOINT: 'http://127.0.0.1:9',
    OTEL_EXPORTER_OTLP_TIMEOUT: '50',
  })
  for (let n = 0; n < 3; n++) {
    tracing.begin('work', { kind: SpanKind.INTERNAL }).end()
    await eventually('it failed', async () => (await counted('failed')) === n + 1)
  }
  await tracing.close()
  expect(lines.filter((line) => line.includes('tracing.receiver-away'))).toHaveLength(1)
  expect(lines.join('')).not.toContain('receiver-secret')
})

test('shutdown sends the pending spans', async () => {
  const receiver = await openOtlpReceiver()
  onTestFinished(() => receiver.close())
  const { tracing, counted } = await open({
    OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: `${receiver.url}/elsewhere`,
    OTEL_BSP_SCHEDULE_DELAY: '60000',
  })
  // More than one request's.
  for (let n = 0; n < 2_000; n++) tracing.begin(`work ${n}`, { kind: SpanKind.INTERNAL }).end()
  await tracing.close()
  expect(new Set(receiver.spans.map(({ name }) => name)).size).toBe(2_000)
  expect(receiver.requests[0]).toMatchObject({ url: '/elsewhere', 'x-token': 'receiver-secret' })
  expect(await counted('sent')).toBe(2_000)
})
