/** Counts what becomes of spans, drops those that are not to be sent, and says when the receiver goes and comes. */

import { type ExportResult, ExportResultCode } from '@opentelemetry/core'
import type { ReadableSpan, SpanExporter, SpanProcessor } from '@opentelemetry/sdk-trace'
import type { Logger } from 'pino'
import { Counter, type Registry } from 'prom-client'
import { sharedMetric } from '../metrics.ts'
import { forgottenAttribute } from './tracing.ts'

type Counts = Counter<'result'>

export function sentSpans(registry: Registry): Counts {
  const help = 'Spans by what became of them: sent, failed, dropped'
  return sharedMetric(registry, 'flotilla_trace_spans_total', (common) => {
    const counts = new Counter({ ...common, help, labelNames: ['result'] })
    for (const result of ['sent', 'failed', 'dropped']) counts.inc({ result }, 0)
    return counts
  })
}

/** Spans pass it on their way to the receiver. */
export class CountingExporter implements SpanExporter {
  /** Spans that were taken out of the queue so far. */
  taken = 0
  readonly #exporter: SpanExporter
  readonly #parts: { counts: Counts; log: Logger }
  #isAway = false

  constructor(exporter: SpanExporter, parts: { counts: Counts; log: Logger }) {
    this.#exporter = exporter
    this.#parts = parts
  }

  export(spans: ReadableSpan[], done: (result: ExportResult) => void): void {
    this.taken += spans.length
    this.#exporter.export(spans, (result) => {
      const sent = result.code === ExportResultCode.SUCCESS
      this.#parts.counts.inc({ result: sent ? 'sent' : 'failed' }, spans.length)
      this.#note(!sent, result.error)
      done(result)
    })
  }

  forceFlush(): Promise<void> {
    return this.#exporter.forceFlush?.() ?? Promise.resolve()
  }

  shutdown(): Promise<void> {
    return this.#exporter.shutdown()
  }

  /** One line when the receiver goes and one when it comes back, whatever is between. */
  #note(isAway: boolean, error: unknown): void {
    if (isAway === this.#isAway) return
    this.#isAway = isAway
    // No message: it may quote what the receiver answered.
    const code = (error as { code?: unknown } | undefined)?.code
    if (isAway) this.#parts.log.warn({ code: String(code ?? 'none') }, 'tracing.receiver-away')
    else this.#parts.log.info('tracing.receiver-back')
  }
}

/**
 * In front of the SDK's queue, which drops silently: drops spans that have no place there by itself, and counts them; and
 * those that are to be forgotten.
 */
export class SpanGate implements SpanProcessor {
  #given = 0
  /** Spans that have not ended, by id: whether one began below. */
  readonly #open = new Map<string, boolean>()
  readonly #queue: SpanProcessor
  readonly #parts: { queueMax: number; taken: () => number; counts: Counts }

  constructor(queue: SpanProcessor, parts: { queueMax: number; taken: () => number; counts: Counts }) {
    this.#queue = queue
    this.#parts = parts
  }

  onStart(...[span, context]: Parameters<SpanProcessor['onStart']>): void {
    const above = span.parentSpanContext?.spanId
    if (above !== undefined && this.#open.has(above)) this.#open.set(above, true)
    this.#open.set(span.spanContext().spanId, false)
    this.#queue.onStart(span, context)
  }

  onEnd(span: ReadableSpan): void {
    const { queueMax, taken, counts } = this.#parts
    const { spanId } = span.spanContext()
    const isUsed = this.#open.get(spanId) ?? false
    this.#open.delete(spanId)
    const forgotten = span.attributes[forgottenAttribute]
    if (forgotten !== undefined && !(forgotten === 'unused' && isUsed)) return
    if (this.#given - taken() >= queueMax) {
      counts.inc({ result: 'dropped' })
      return
    }
    this.#given++
    this.#queue.onEnd(span)
  }

  forceFlush(): Promise<void> {
    return this.#queue.forceFlush()
  }

  shutdown(): Promise<void> {
    return this.#queue.shutdown()
  }
}
