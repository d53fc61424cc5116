/** Without tracing spans are those of OpenTelemetry's no-op tracer: the caller's trace context goes on as it came. */

import { SpanKind } from '@opentelemetry/api'
import { expect, test } from 'vitest'
import { followed, noTracing, traceparentOf } from '#runtime/observe/tracing/tracing.ts'

const traceparent = '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01'

test('nothing is recorded, nothing runs, and the context of the caller is handed on', async () => {
  const span = noTracing.begin('work', { kind: SpanKind.INTERNAL, traceparent })
  expect(span.isRecording()).toBe(false)
  expect(traceparentOf(span)).toBe(traceparent)
  expect(traceparentOf(noTracing.begin('work', { kind: SpanKind.INTERNAL }))).toBeUndefined()
  noTracing.run([span], () => {
    expect(noTracing.current()).toEqual([])
    expect(traceparentOf(noTracing.beginChild('inner', { kind: SpanKind.INTERNAL }))).toBeUndefined()
    expect(noTracing.nearest(traceparent)).toBe(traceparent)
  })
  await expect(followed([span], Promise.reject(new TypeError('x')))).rejects.toThrow('x')
})
