/** Handlers as spans: how they end, which calls have none, and foreign headers in the log. */

import { SpanKind } from '@opentelemetry/api'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { type BatchOutcome, done, keepTrying, type LaneOutcome, park, postpone } from '#lib/outcome.ts'
import type { CallContext } from '#runtime/consume/consumer.ts'
import { tracedBatches, tracedLanes } from '#runtime/observe/tracing/traced-handlers.ts'
import type { Tracing } from '#runtime/observe/tracing/tracing.ts'
import type { Message } from '#runtime/publish/messages.ts'
import type { VectorUpsert } from '#schemas/types.ts'
import { vectorsCommands as topic } from '#topics/catalog.ts'
import { type OtlpReceiver, openOtlpReceiver } from '../../../../support/otlp-receiver.ts'

const context: CallContext = {
  signal: new AbortController().signal,
  lost: new AbortController().signal,
  attempt: 1,
  retriesUsed: 0,
  partition: 0,
}
const common = {
  group: 'g',
  topic,
  callTimeoutMs: 1_000,
  retriesMax: 1,
  backoff: { baseMs: 1, maxMs: 1 },
}
const traceOf = (digit: string, flags = '01') => `00-${digit.repeat(32)}-${digit.repeat(16)}-${flags}`

let receiver: OtlpReceiver
let tracing: Tracing
beforeEach(async () => {
  receiver = await openOtlpReceiver()
  tracing = await receiver.openTracing()
})
afterEach(async () => {
  await tracing.close()
  await receiver.close()
})

function messageOf(offset: number, traceparent?: string): Message<VectorUpsert> {
  const headers = traceparent === undefined ? {} : { traceparent }
  return { key: 'k', value: null, headers, partition: 0, offset, timestamp: 0 }
}

async function handleBatch(messages: Message<VectorUpsert>[], handle: () => Promise<BatchOutcome[]>) {
  const batch = { ...common, batchRecordsMax: 10, batchBytesMax: 10, handle }
  return tracedBatches(batch, tracing, 'kafka').handle(messages, context)
}

async function sent() {
  await tracing.close()
  return receiver.spans.map(({ traceId, parentSpanId, attributes }) => [
    traceId[0],
    parentSpanId[0],
    attributes['messaging.batch.message_count'],
    attributes['error.type'],
  ])
}

test('each trace of a batch has a span, which fails with a record of its own', async () => {
  const messages = ['a', 'b', 'a', undefined, 'c'].map((digit, n) => messageOf(n, digit && traceOf(digit)))
  const outcomes = [done, done, done, park('other'), park('secret-value')]
  expect(await handleBatch(messages, async () => outcomes)).toBe(outcomes)
  expect(await sent()).toEqual([
    ['a', 'a', 2, undefined],
    ['b', 'b', 1, undefined],
    ['c', 'c', 1, 'park'],
  ])
})

test('a handler that throws fails all of them, and its fault goes on', async () => {
  const fault = new TypeError('secret-value')
  const handled = handleBatch([messageOf(0, traceOf('a'))], () => Promise.reject(fault))
  await expect(handled).rejects.toBe(fault)
  expect(await sent()).toEqual([['a', 'a', 1, 'TypeError']])
})

test('a record whose trace context is invalid or not sampled is handled and has no span', async () => {
  const headers = [traceOf('0'), traceOf('a', '00'), 'x1', '', `${traceOf('b')}1`, traceOf('A')]
  const messages = headers.map((traceparent, n) => messageOf(n, traceparent))
  expect(await handleBatch(messages, async () => messages.map(() => done))).toHaveLength(headers.length)
  expect(await sent()).toEqual([])
})

test('a head of a lane that only waits its turn has no span, a try has one', async () => {
  const outcomes: LaneOutcome[] = [postpone('waits', 10, 0), keepTrying('refused', 10, 1), done]
  const lane = { ...common, concurrency: 1, handle: async () => outcomes.shift()! }
  const { handle } = tracedLanes(lane, tracing, 'kafka')
  for (let n = 0; n < 3; n++) await handle(messageOf(0, traceOf('a')), context)
  expect(await sent()).toEqual([
    ['a', 'a', 1, 'hold'],
    ['a', 'a', 1, undefined],
  ])
})

test('a head that only waited its turn keeps its span where others began below it', async () => {
  const handle = async () => {
    tracing.beginChild('look', { kind: SpanKind.INTERNAL }).end()
    return postpone('waits', 10, 0)
  }
  await tracedLanes({ ...common, concurrency: 1, handle }, tracing, 'kafka').handle(
    messageOf(0, traceOf('a')),
    context,
  )
  await tracing.close()
  expect(receiver.spans.map(({ name }) => name)).toEqual(['look', `process ${topic.name}`])
})
