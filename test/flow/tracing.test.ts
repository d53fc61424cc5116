/** Traces: one from a request through the log to its effect, as an OTLP receiver gets them. */

import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { eventually } from '../support/eventually.ts'
import { call } from '../support/gateway-call.ts'
import {
  type OtlpReceiver,
  openOtlpReceiver,
  type ReceivedSpan,
  traceparentOf,
} from '../support/otlp-receiver.ts'
import { axisVector } from '../support/points.ts'
import { openRunsPlatform, type RunsPlatform } from '../support/runs-platform.ts'
import { openWebhookSink, type WebhookSink } from '../support/webhook-sink.ts'

const folder = mkdtempSync(join(tmpdir(), 'fl-traces-'))
const secret = 'Bearer receiver-secret-1'
let receiver: OtlpReceiver
let sink: WebhookSink
let platform: RunsPlatform
beforeAll(async () => {
  receiver = await openOtlpReceiver()
  sink = await openWebhookSink()
  const targets = join(folder, 'targets.yaml')
  writeFileSync(targets, JSON.stringify({ targets: { audit: { url: `${sink.url}?token=a-secret` } } }))
  platform = await openRunsPlatform({
    OTEL_EXPORTER_OTLP_ENDPOINT: receiver.url,
    OTEL_EXPORTER_OTLP_HEADERS: `authorization=${encodeURIComponent(secret)}`,
    OTEL_BSP_SCHEDULE_DELAY: '20',
    OTEL_RESOURCE_ATTRIBUTES: 'deployment.environment.name=test',
    WEBHOOK_TARGETS_FILE: targets,
  })
})
afterAll(async () => {
  await platform?.close()
  await sink?.close()
  await receiver?.close()
  rmSync(folder, { recursive: true, force: true })
})

const engines = () => platform.platform.engines

async function upsert(id: string, traceparent?: string) {
  const body = { collection: 'posts', points: [{ id, vector: [...axisVector(3)], payload: { id } }] }
  return call(platform.vectorUrl, '/v1/vectors/upsert?wait=true', {
    key: await platform.memberKey(),
    body,
    headers: traceparent === undefined ? {} : { traceparent },
  })
}

test('an upsert is one trace: request, publish, the handling of the writer, the call of the engine', async () => {
  const caller = `00-${'4bf92f3577b34da6a3ce929d0e0e4736'}-00f067aa0ba902b7-01`
  const answer = await upsert('traced', caller)
  expect(answer.status).toBe(200)
  const own = answer.headers.get('traceparent')!
  expect(own).toMatch(/^00-4bf92f3577b34da6a3ce929d0e0e4736-[0-9a-f]{16}-01$/)
  const chain = await receiver.chainTo(
    'the call of the engine',
    'POST /v1/vectors/upsert',
    ({ traceId, name }) => traceId === caller.slice(3, 35) && name === 'apply posts',
  )
  expect(chain.map(({ name, kind }) => [name, kind])).toEqual([
    ['POST /v1/vectors/upsert', 2],
    ['send vectors.commands', 4],
    ['process vectors.commands', 5],
    // Within this process, or at Qdrant.
    ['apply posts', engines().vectors.driver === 'qdrant' ? 3 : 1],
  ])
  const [server, send, process, applied] = chain
  expect([server!.spanId, server!.parentSpanId]).toEqual([own.slice(36, 52), caller.slice(36, 52)])
  expect(server!.attributes).toMatchObject({
    'http.request.method': 'POST',
    'http.route': '/v1/vectors/upsert',
    'http.response.status_code': 200,
    'flotilla.service': 'vector-gateway',
    'flotilla.agent': 'key-member',
  })
  expect(send!.attributes).toMatchObject({
    'messaging.system': engines().eventLog.driver,
    'messaging.destination.name': 'vectors.commands',
    'messaging.batch.message_count': 1,
  })
  expect(process!.attributes).toMatchObject({
    'messaging.operation.type': 'process',
    'messaging.batch.message_count': 1,
  })
  expect(applied!.resource).toMatchObject({
    'service.name': 'flotilla',
    'deployment.environment.name': 'test',
  })
})

test('a search is a request and the call of the engine', async () => {
  const answer = await call(platform.vectorUrl, '/v1/vectors/search', {
    key: await platform.memberKey(),
    body: { collection: 'posts', vector: [...axisVector(3)], limit: 1 },
  })
  expect(answer.status).toBe(200)
  const { traceId } = traceparentOf(answer.headers.get('traceparent'))
  const chain = await receiver.chainTo(
    'the call of the engine',
    'POST /v1/vectors/search',
    (span) => span.traceId === traceId && span.name === 'search posts',
  )
  expect(chain).toHaveLength(2)
  expect(chain[1]!.attributes).toMatchObject({
    'db.operation.name': 'search',
    'db.collection.name': 'posts',
  })
})

test('a span that several traces share is a child of one and is linked to the others', async () => {
  const ids = Array.from({ length: 8 }, (_, n) => `together-${n}`)
  const answers = await Promise.all(ids.map((id) => upsert(id)))
  expect(answers.map(({ status }) => status)).toEqual(ids.map(() => 200))
  for (const answer of answers) {
    const traceId = answer.headers.get('traceparent')!.slice(3, 35)
    const handled = await receiver.spanOf(
      'each trace has the handling of its point',
      (span) => span.traceId === traceId && span.name === 'process vectors.commands',
    )
    await receiver.spanOf(
      'and a call of the engine is its child or is linked to it',
      ({ name, parentSpanId, links }) =>
        name === 'apply posts' && (parentSpanId === handled.spanId || links.includes(handled.spanId)),
    )
  }
})

test('a run is one trace: request, dispatcher, call of the node, the event of its end, and the webhook', async () => {
  const answer = await platform.run('whale', 'hello')
  expect(answer.status).toBe(200)
  const { traceId, spanId } = traceparentOf(answer.headers.get('traceparent'))
  const ofTrace = (name: string) => (span: ReceivedSpan) => span.traceId === traceId && span.name === name
  const toNode = await receiver.chainTo('the node', 'POST /:slug/run', ofTrace('invoke_agent WHALE'))
  expect(toNode.map(({ name }) => name)).toEqual(['POST /:slug/run', 'run whale', 'invoke_agent WHALE'])
  expect(toNode[0]!.spanId).toBe(spanId)
  const atNode = platform.node.runs.find(({ app }) => app === 'whale')!
  expect(traceparentOf(atNode.headers.traceparent)).toMatchObject({ traceId, spanId: toNode.at(-1)!.spanId })
  const toTarget = await receiver.chainTo('the webhook', 'POST /:slug/run', ofTrace('POST'))
  expect(toTarget.map(({ name }) => name)).toEqual([
    'POST /:slug/run',
    'send fleet.events',
    'process fleet.events',
    'send webhooks.deliveries',
    'process webhooks.deliveries',
    'POST',
  ])
  const delivered = toTarget.at(-1)!
  expect(delivered.attributes).toMatchObject({
    'server.address': '127.0.0.1',
    'http.response.status_code': 204,
    'flotilla.target': 'audit',
  })
  const got = sink.received.find(({ headers }) => headers.traceparent?.includes(traceId))
  expect(traceparentOf(got?.headers.traceparent)).toMatchObject({ spanId: delivered.spanId })
})

test('an invalid traceparent begins a new trace, and one that is not sampled is left out', async () => {
  const garbage = ['', 'x', '00-zz', `00-${'0'.repeat(32)}-00f067aa0ba902b7-01`, `ff-${'a'.repeat(400)}`]
  for (const [n, traceparent] of garbage.entries()) {
    const answer = await upsert(`garbage-${n}`, traceparent)
    expect(answer.status).toBe(200)
    const { traceId } = traceparentOf(answer.headers.get('traceparent'))
    const server = await receiver.spanOf(
      'a root',
      (span) => span.traceId === traceId && span.name === 'POST /v1/vectors/upsert',
    )
    expect(server.parentSpanId).toBe('')
  }
  const unsampled = `00-${'5'.repeat(32)}-00f067aa0ba902b7-00`
  const answer = await upsert('unsampled', unsampled)
  expect(answer.headers.get('traceparent')).toMatch(/^00-5{32}-[0-9a-f]{16}-00$/)
  // Its audit records and its note have gone all the way, too, when a later request's have.
  const later = await upsert('later')
  const { traceId } = traceparentOf(later.headers.get('traceparent'))
  await receiver.spanOf('a later trace', (span) => span.traceId === traceId && span.name === 'apply posts')
  expect(receiver.spans.filter((span) => span.traceId === '5'.repeat(32))).toEqual([])
})

test('probes are no spans, a refusal is no error, and nothing that is secret is in spans or lines', async () => {
  await call(platform.vectorUrl, '/readyz')
  const refused = await call(platform.vectorUrl, '/v1/vectors/count?collection=posts', {
    key: 'vk_live_wrong',
  })
  expect(refused.status).toBe(401)
  const { traceId } = traceparentOf(refused.headers.get('traceparent'))
  const span = await receiver.spanOf('the refusal', (one) => one.traceId === traceId)
  expect(span).toMatchObject({
    name: 'GET /v1/vectors/count',
    isError: false,
    attributes: { 'flotilla.problem': 'unauthorized', 'http.response.status_code': 401 },
  })
  expect(receiver.spans.filter(({ name }) => name.includes('/readyz'))).toEqual([])
  const written = [JSON.stringify(receiver.spans), ...platform.lines].join('\n')
  for (const hidden of [
    secret,
    'receiver-secret',
    'a-secret',
    'vk_live_',
    'collection=posts',
    'whale heard',
  ]) {
    expect(written.includes(hidden), hidden).toBe(false)
  }
  expect(receiver.requests[0]).toMatchObject({
    url: '/v1/traces',
    authorization: secret,
    'content-type': 'application/x-protobuf',
  })
  const text = await eventually('sent spans are counted', async () => {
    const metrics = await call(platform.vectorUrl, '/metrics')
    return /flotilla_trace_spans_total\{result="sent"\} [1-9]/.test(metrics.text) && metrics.text
  })
  expect(text).toContain('flotilla_trace_spans_total{result="dropped"} 0')
})

test('a receiver that never answers holds up no request, and no stop (below)', async () => {
  receiver.mode = 'hang'
  const before = receiver.requests.length
  await upsert('hanging')
  await eventually('spans are on their way', () => receiver.requests.length > before)
  expect((await upsert('while it hangs')).status).toBe(200)
})
