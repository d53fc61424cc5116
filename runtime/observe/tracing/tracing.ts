/**
 * Spans of OpenTelemetry's API, and which of them run. Where tracing is off the API's own no-op tracer is behind them; the
 * SDK (sdk.ts) is loaded only when it is on.
 */

import { AsyncLocalStorage } from 'node:async_hooks'
import {
  INVALID_SPAN_CONTEXT,
  isSpanContextValid,
  ProxyTracerProvider,
  ROOT_CONTEXT,
  type Span,
  type SpanContext,
  type SpanOptions,
  SpanStatusCode,
  type Tracer,
  trace,
} from '@opentelemetry/api'
import { sqlState } from '#engines/relational/port.ts'
import { AppError } from '#lib/errors.ts'
import type { Closeable } from '#lib/resource.ts'

/** Most links of one span. */
const linksMax = 64
/** The SDK does not send spans that have it; with `unused` it sends those that others began below. */
export const forgottenAttribute = 'flotilla.forgotten'

export class Tracing implements Closeable {
  readonly isOn: boolean
  readonly close: () => Promise<void>
  readonly #tracer: Tracer
  /** Kept per object: several platforms of one process do not see each other's spans. */
  readonly #running = new AsyncLocalStorage<readonly Span[]>()

  /** Without `on` nothing is traced. */
  constructor(on?: { tracer: Tracer; close(): Promise<void> }) {
    this.isOn = on !== undefined
    this.#tracer = on?.tracer ?? new ProxyTracerProvider().getTracer('flotilla')
    this.close = on?.close ?? (async () => {})
  }

  /** Begins a span below `traceparent`, which must be valid; without one it is the root of a new trace. */
  begin(name: string, { traceparent, ...options }: SpanOptions & { traceparent?: string | undefined }): Span {
    const above =
      traceparent === undefined
        ? ROOT_CONTEXT
        : trace.setSpanContext(ROOT_CONTEXT, spanContextOf(traceparent))
    return this.#tracer.startSpan(name, options, above)
  }

  /** The context of the span that runs in the same trace, else the given one. */
  nearest(traceparent: string): string {
    const { traceId } = spanContextOf(traceparent)
    const running = this.current().find((span) => span.spanContext().traceId === traceId)
    return (running && traceparentOf(running)) ?? traceparent
  }

  /** Begins a child of the work that runs; one of no trace where nothing that is traced runs. */
  beginChild(name: string, options: SpanOptions): Span {
    const [parent, ...others] = this.current()
    if (!parent) return trace.wrapSpanContext(INVALID_SPAN_CONTEXT)
    const links = others.slice(0, linksMax).map((span) => ({ context: span.spanContext() }))
    return this.#tracer.startSpan(name, { ...options, links }, trace.setSpan(ROOT_CONTEXT, parent))
  }

  /**
   * The recorded spans of the work that runs. Work begun by a request may go on behind its end, for others: it is not the
   * request's any more.
   */
  current(): readonly Span[] {
    return this.#running.getStore()?.filter((span) => span.isRecording()) ?? []
  }

  /**
   * Runs `work`, and all that it calls and awaits, as the work of these spans. A child of several is a child of the first
   * and has links to the others. Without any, nothing of it is traced: for work that is done for nobody in particular.
   */
  run<T>(spans: readonly Span[], work: () => T): T {
    return this.isOn ? this.#running.run(spans, work) : work()
  }
}

/** For processes that do not trace. */
export const noTracing = new Tracing()

/** Ends it, once. `fault` is a code or a status, never a text: texts may hold what callers sent. */
export function endSpan(span: Span, fault?: string): void {
  if (!span.isRecording()) return
  if (fault !== undefined) span.setAttribute('error.type', fault).setStatus({ code: SpanStatusCode.ERROR })
  span.end()
}

/** Ends it without a record: `always`, or where no other began below it, for work that turned out to be none. */
export function forgetSpan(span: Span, when: 'always' | 'unused'): void {
  span.setAttribute(forgottenAttribute, when)
  span.end()
}

/** Hands on how the work ends, and ends the spans with it. */
export async function followed<T>(spans: readonly Span[], work: Promise<T>): Promise<T> {
  const result = await followedFault(spans, work)
  for (const span of spans) endSpan(span)
  return result
}

/** As `followed`, where the spans of work that succeeds are ended by others. */
export async function followedFault<T>(spans: readonly Span[], work: Promise<T>): Promise<T> {
  try {
    return await work
  } catch (error) {
    for (const span of spans) endSpan(span, faultOf(error))
    throw error
  }
}

/** A code; no message, which may hold what a caller sent. */
export function faultOf(error: unknown): string {
  if (error instanceof AppError) return error.code
  return sqlState(error) ?? (error instanceof Error ? error.name : 'error')
}

/** W3C trace context of the span, for headers of requests and records; undefined for one of no trace. */
export function traceparentOf(span: Span): string | undefined {
  const context = span.spanContext()
  if (!isSpanContextValid(context)) return undefined
  return `00-${context.traceId}-${context.spanId}-${context.traceFlags.toString(16).padStart(2, '0')}`
}

function spanContextOf(traceparent: string): SpanContext {
  const [, traceId = '', spanId = '', flags = ''] = traceparent.split('-')
  return { traceId, spanId, traceFlags: Number.parseInt(flags, 16) & 1, isRemote: true }
}

/** W3C Trace Context, version 00; all-zero ids are invalid there. */
const traceContext = /^00-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}$/

export function isTraceparent(given: unknown): given is string {
  return typeof given === 'string' && traceContext.test(given)
}

/** Whether it is a trace context, of a trace that is recorded: others may write into the log what they like. */
export function isSampled(traceparent: string | undefined): traceparent is string {
  return isTraceparent(traceparent) && (spanContextOf(traceparent).traceFlags & 1) === 1
}
