/** The SDK of OpenTelemetry behind `Tracing`: makes, samples, batches and sends spans. Loaded only when tracing is on. */

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
import { CountingExporter, SpanGate, sentSpans } from './export.ts'
import type { SamplerName, TracingOptions } from './settings.ts'
import { Tracing } from './tracing.ts'

/** Spans of one request to the receiver. */
const batchMax = 512

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
    spanProcessors: [new SpanGate(batches, { queueMax, taken: () => exporter.taken, counts })],
  })
  return new Tracing({ tracer: provider.getTracer('flotilla'), close: () => closeInTime(provider, log) })
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

/** Sends pending spans, within a time: a receiver that is away must not hold up a stop. */
async function closeInTime(provider: TracerProvider, log: Logger): Promise<void> {
  const late = () => new Error('not all spans were sent in time')
  try {
    await withTimeout(provider.shutdown(), deadlines.stop.spansMs, late)
  } catch {
    log.warn({ withinMs: deadlines.stop.spansMs }, 'tracing.not-all-sent')
  }
}
