/**
 * Spans as the platform's code sees them. Without tracing there is no `Tracing` at all, and whoever may have one asks for
 * it with one branch; the SDK of OpenTelemetry is behind it (sdk.ts) and is loaded only when tracing is on.
 */

import type { Closeable } from '#lib/resource.ts'

export type SpanKind = 'server' | 'client' | 'producer' | 'consumer' | 'internal'

/** By the names of OpenTelemetry's semantic conventions where they have one, else behind `flotilla.`. */
export type SpanAttributes = Record<string, string | number | boolean>

export interface SpanOptions {
  kind: SpanKind
  attributes?: SpanAttributes
}

/** One piece of work that is being done. */
export interface OpenSpan {
  /** W3C trace context of this span: for headers of requests and records. */
  readonly traceparent: string
  readonly traceId: string
  /** False where the sampler leaves this trace out; then nothing is worth doing for it. */
  readonly recorded: boolean
  /** The work is over: it has no children any more. */
  readonly ended: boolean
  set(attributes: SpanAttributes): void
  /** `fault` is a code or a status, never a text: texts may hold what callers sent. Only the first call counts. */
  end(fault?: string): void
  /** Ends it without a record, unless somebody has used it as a parent: for work that turned out to be none. */
  discard(): void
  /** Never records it. */
  forget(): void
}

export interface Tracing extends Closeable {
  /** Begins a span below `traceparent`, which must be valid; without one it is the root of a new trace. */
  begin(name: string, options: SpanOptions & { traceparent?: string | undefined }): OpenSpan
  /** The context of the span that runs in the same trace, else the given one. */
  nearest(traceparent: string): string
  /** Begins a child of what runs; undefined where nothing that is traced runs. */
  beginChild(name: string, options: SpanOptions): OpenSpan | undefined
  /** The spans of the work that runs. */
  current(): readonly OpenSpan[]
  /**
   * Runs `work`, and all that it calls and awaits, as the work of these spans. A child of several is a child of the first
   * and has links to the others. Without any, nothing of it is traced: for what is done for nobody in particular.
   */
  run<T>(spans: readonly OpenSpan[], work: () => T): T
}

/** W3C Trace Context, version 00; all-zero ids are invalid there. */
const traceContext = /^00-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}$/

export function isTraceparent(given: unknown): given is string {
  return typeof given === 'string' && traceContext.test(given)
}

/** Whether it is a trace context, of a trace that is recorded: others may write into the log what they like. */
export function isSampled(traceparent: string | undefined): traceparent is string {
  // The lowest bit of the flags says so.
  return isTraceparent(traceparent) && '13579bdf'.includes(traceparent.at(-1)!)
}
