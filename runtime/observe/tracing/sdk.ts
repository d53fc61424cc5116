/** The SDK of OpenTelemetry behind `Tracing`: makes, samples, batches and sends spans. Loaded only when tracing is on. */

import { AsyncLocalStorage } from 'node:async_hooks'
import {
  type Context,
  type Link,
  ROOT_CONTEXT,
  SpanKind as SdkKind,
  type Span,
  SpanStatusCode,
  TraceFlags,
  type Tracer,
  trace,
} from '@opentelemetry/api'
import { OTLPTraceExporter } from '@opentelemetry/exporter-trace-otlp-proto'
import { defaultResource, resourceFromAttributes } from '@opentelemetry/resources'
import {
  AlwaysOffSampler,
  AlwaysOnSampler,
  BatchSpanProcessor,
  ParentBasedSampler,
  type Sampler,
  TraceIdRatioBasedSampler,
  TracerProvider,
} from '@opentelemetry/sdk-trace'
import type { Logger } from 'pino'
import type { Registry } from 'prom-client'
import { withTimeout } from '#lib/backoff.ts'
import { deadlines } from '#lib/deadlines.ts'
import { CountingExporter, QueueLimit, sentSpans } from './export.ts'
import type { SamplerName, TracingOptions } from './settings.ts'
import type { OpenSpan, SpanAttributes, SpanKind, SpanOptions, Tracing } from './tracing.ts'

/** Spans of one request to the receiver. */
const batchMax = 512
/** Most links of one span. */
const linksMax = 64

interface SdkParts {
  options: TracingOptions
  /** `service.name` where the options name none. */
  serviceName: string
  instanceId: string
  log: Logger
  metrics: Registry
}

export function openSdk({ options, serviceName, instanceId, log, metrics }: SdkParts): Tracing {
  const counts = sentSpans(metrics)
  const { queueMax } = options
  const exporter = new CountingExporter(
    new OTLPTraceExporter({
      url: options.url,
      headers: options.headers,
      timeoutMillis: options.timeoutMs,
      // At the end all pending spans are sent at once, behind those in flight.
      concurrencyLimit: Math.ceil(queueMax / batchMax) + 1,
    }),
    { counts, log },
  )
  const batches = new BatchSpanProcessor({
    exporter,
    maxQueueSize: queueMax,
    maxExportBatchSize: Math.min(batchMax, queueMax),
    scheduledDelayMillis: options.sendEveryMs,
    exportTimeoutMillis: options.timeoutMs + 1_000,
  })
  const provider = new TracerProvider({
    resource: defaultResource().merge(
      resourceFromAttributes({
        'service.instance.id': instanceId,
        ...options.resource,
        'service.name': options.serviceName ?? options.resource['service.name'] ?? serviceName,
      }),
    ),
    sampler: samplerOf(options.sampler, options.sampledShare),
    spanProcessors: [new QueueLimit(batches, { queueMax, taken: () => exporter.taken, counts })],
  })
  return new SdkTracing(provider, log)
}

function samplerOf(name: SamplerName, share: number): Sampler {
  const [, based, kind] = /^(parentbased_)?(.+)$/.exec(name)!
  const root =
    kind === 'always_on'
      ? new AlwaysOnSampler()
      : kind === 'always_off'
        ? new AlwaysOffSampler()
        : new TraceIdRatioBasedSampler(share)
  return based ? new ParentBasedSampler({ root }) : root
}

class SdkTracing implements Tracing {
  readonly #provider: TracerProvider
  readonly #tracer: Tracer
  readonly #log: Logger
  /** Kept per object: several platforms of one process do not see each other's spans. */
  readonly #running = new AsyncLocalStorage<readonly OpenSpan[]>()

  constructor(provider: TracerProvider, log: Logger) {
    this.#provider = provider
    this.#tracer = provider.getTracer('flotilla')
    this.#log = log
  }

  begin(
    name: string,
    { traceparent, ...options }: SpanOptions & { traceparent?: string | undefined },
  ): OpenSpan {
    return new SdkSpan(this.#tracer, name, options, contextOf(traceparent, true), [])
  }

  nearest(traceparent: string): string {
    const traceId = traceparent.slice(3, 35)
    const running = this.current().find((span) => !span.ended && span.traceId === traceId)
    return running?.traceparent ?? traceparent
  }

  beginChild(name: string, options: SpanOptions): OpenSpan | undefined {
    // Work begun by a request may go on behind its end, for others: it is not the request's any more.
    const [parent, ...others] = this.current().filter((span) => !span.ended)
    if (!parent) return undefined
    const links = others
      .slice(0, linksMax)
      .map(({ traceparent }) => ({ context: spanContextOf(traceparent) }))
    return new SdkSpan(this.#tracer, name, options, contextOf(parent.traceparent, false), links)
  }

  current(): readonly OpenSpan[] {
    return this.#running.getStore() ?? none
  }

  run<T>(spans: readonly OpenSpan[], work: () => T): T {
    return this.#running.run(spans, work)
  }

  /** Sends pending spans, within a time: a receiver that is away must not hold up a stop. */
  async close(): Promise<void> {
    const late = () => new Error('not all spans were sent in time')
    try {
      await withTimeout(this.#provider.shutdown(), deadlines.stop.spansMs, late)
    } catch {
      this.#log.warn({ withinMs: deadlines.stop.spansMs }, 'tracing.not-all-sent')
    }
  }
}

const none: readonly OpenSpan[] = []

const kinds: Record<SpanKind, SdkKind> = {
  server: SdkKind.SERVER,
  client: SdkKind.CLIENT,
  producer: SdkKind.PRODUCER,
  consumer: SdkKind.CONSUMER,
  internal: SdkKind.INTERNAL,
}

function spanContextOf(traceparent: string, isRemote = false) {
  const sampled = (Number.parseInt(traceparent.slice(-2), 16) & TraceFlags.SAMPLED) !== 0
  return {
    traceId: traceparent.slice(3, 35),
    spanId: traceparent.slice(36, 52),
    traceFlags: sampled ? TraceFlags.SAMPLED : TraceFlags.NONE,
    isRemote,
  }
}

function contextOf(traceparent: string | undefined, isRemote: boolean): Context {
  return traceparent === undefined
    ? ROOT_CONTEXT
    : trace.setSpanContext(ROOT_CONTEXT, spanContextOf(traceparent, isRemote))
}

/** The SDK's span is made when it is first needed, so that one that is discarded costs nothing. */
class SdkSpan implements OpenSpan {
  ended = false
  readonly #startedAt = Date.now()
  readonly #startedTick = performance.now()
  readonly #make: () => Span
  #span: Span | undefined
  #traceparent: string | undefined

  constructor(tracer: Tracer, name: string, options: SpanOptions, parent: Context, links: Link[]) {
    const { kind, attributes = {} } = options
    this.#make = () =>
      tracer.startSpan(name, { kind: kinds[kind], attributes, links, startTime: this.#startedAt }, parent)
  }

  get #own(): Span {
    this.#span ??= this.#make()
    return this.#span
  }

  get traceparent(): string {
    if (this.#traceparent === undefined) {
      const { traceId, spanId, traceFlags } = this.#own.spanContext()
      this.#traceparent = `00-${traceId}-${spanId}-${traceFlags.toString(16).padStart(2, '0')}`
    }
    return this.#traceparent
  }

  get traceId(): string {
    return this.traceparent.slice(3, 35)
  }

  get recorded(): boolean {
    return this.#own.isRecording()
  }

  set(attributes: SpanAttributes): void {
    if (!this.ended) this.#own.setAttributes(attributes)
  }

  end(fault?: string): void {
    if (this.ended) return
    if (fault !== undefined) {
      this.#own.setAttribute('error.type', fault)
      this.#own.setStatus({ code: SpanStatusCode.ERROR })
    }
    // A clock that is set meanwhile must not change how long it took.
    this.#own.end(this.#startedAt + performance.now() - this.#startedTick)
    this.ended = true
  }

  discard(): void {
    if (this.#span === undefined) this.forget()
    else this.end()
  }

  forget(): void {
    // The SDK sends ended spans only.
    this.ended = true
  }
}
