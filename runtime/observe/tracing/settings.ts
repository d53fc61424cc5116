/** The settings of tracing, by OpenTelemetry's own names, and values derived from them. */

import { Type } from 'typebox'
import { type Environment, loadConfig, optionalText, optionalUrl } from '#lib/config.ts'

const samplers = [
  'always_on',
  'always_off',
  'traceidratio',
  'parentbased_always_on',
  'parentbased_always_off',
  'parentbased_traceidratio',
] as const

export type SamplerName = (typeof samplers)[number]

export const tracingSettings = Type.Object({
  OTEL_EXPORTER_OTLP_ENDPOINT: optionalUrl(
    'base URL of an OTLP/HTTP receiver, for example `http://localhost:4318`: turns tracing on; spans go to `/v1/traces` below it',
  ),
  OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: optionalUrl(
    'the whole URL that spans are sent to, in place of the one above; turns tracing on, too',
  ),
  OTEL_TRACES_EXPORTER: Type.Optional(
    Type.Enum(['otlp', 'none'], {
      description:
        '`otlp` turns tracing on without an endpoint, to `http://localhost:4318`; `none` turns it off',
    }),
  ),
  OTEL_SDK_DISABLED: Type.Boolean({ default: false, description: '`true` turns tracing off' }),
  OTEL_EXPORTER_OTLP_HEADERS: Type.Optional(
    Type.Refine(
      Type.String({
        minLength: 1,
        description:
          'headers of the requests to the receiver: `name=value`, comma-separated, percent-encoded; may be secrets',
      }),
      (text) => pairsOf(text) !== null,
      () => 'must be name=value, comma-separated, percent-encoded',
    ),
  ),
  OTEL_EXPORTER_OTLP_PROTOCOL: Type.Enum(['http/protobuf'], {
    default: 'http/protobuf',
    description: 'how spans are sent: over HTTP; a receiver of gRPC alone needs its HTTP port, usually 4318',
  }),
  OTEL_EXPORTER_OTLP_TIMEOUT: Type.Integer({
    minimum: 1,
    maximum: 60_000,
    default: 10_000,
    description: 'longest time for sending a batch of spans with all its tries, in ms; then they are dropped',
  }),
  OTEL_SERVICE_NAME: optionalText(
    '`service.name` of the spans; default `flotilla`, or the names of the services of this process joined by `+`',
  ),
  OTEL_RESOURCE_ATTRIBUTES: Type.Optional(
    Type.Refine(
      Type.String({
        minLength: 1,
        description:
          'further attributes of this process: `name=value`, comma-separated, for example `deployment.environment.name=production`',
      }),
      (text) => pairsOf(text) !== null,
      () => 'must be name=value, comma-separated, percent-encoded',
    ),
  ),
  OTEL_TRACES_SAMPLER: Type.Enum(samplers, {
    default: 'parentbased_always_on',
    description:
      'which traces are kept: `always_on`, `always_off`, `traceidratio`, or these behind `parentbased_`, which does as the caller’s `traceparent` says',
  }),
  OTEL_TRACES_SAMPLER_ARG: Type.Number({
    minimum: 0,
    maximum: 1,
    default: 1,
    description: 'the share of traces that the samplers `traceidratio` keep, 0 to 1',
  }),
  OTEL_BSP_SCHEDULE_DELAY: Type.Integer({
    minimum: 1,
    maximum: 60_000,
    default: 5_000,
    description: 'how long spans wait to be sent together, in ms',
  }),
  OTEL_BSP_MAX_QUEUE_SIZE: Type.Integer({
    minimum: 1,
    maximum: 65_536,
    default: 2_048,
    description: 'spans that wait at most; more are dropped and counted',
  }),
})

export interface TracingOptions {
  /** Where spans are sent. It may hold a secret. */
  url: string
  /** They may be secrets. */
  headers: Record<string, string>
  timeoutMs: number
  serviceName: string | undefined
  resource: Record<string, string>
  sampler: SamplerName
  sampledShare: number
  sendEveryMs: number
  queueMax: number
}

const defaultEndpoint = 'http://localhost:4318'

/** What the environment asks for; undefined when tracing is off. Throws AppError `invalid_configuration`. */
export function tracingOptionsOf(env: Environment): TracingOptions | undefined {
  const settings = loadConfig(tracingSettings, env)
  const { OTEL_EXPORTER_OTLP_ENDPOINT: base, OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: whole } = settings
  const { OTEL_TRACES_EXPORTER: exporter, OTEL_SDK_DISABLED: disabled } = settings
  if (disabled || exporter === 'none') return undefined
  if (exporter === undefined && base === undefined && whole === undefined) return undefined
  return {
    url: whole ?? `${(base ?? defaultEndpoint).replace(/\/+$/, '')}/v1/traces`,
    headers: pairsOf(settings.OTEL_EXPORTER_OTLP_HEADERS ?? '') ?? {},
    timeoutMs: settings.OTEL_EXPORTER_OTLP_TIMEOUT,
    serviceName: settings.OTEL_SERVICE_NAME,
    resource: pairsOf(settings.OTEL_RESOURCE_ATTRIBUTES ?? '') ?? {},
    sampler: settings.OTEL_TRACES_SAMPLER,
    sampledShare: settings.OTEL_TRACES_SAMPLER_ARG,
    sendEveryMs: settings.OTEL_BSP_SCHEDULE_DELAY,
    queueMax: settings.OTEL_BSP_MAX_QUEUE_SIZE,
  }
}

/** `name=value` pairs, comma-separated, their values percent-encoded; null when they are none. */
function pairsOf(text: string): Record<string, string> | null {
  const pairs: [string, string][] = []
  for (const part of text.split(',')) {
    if (part.trim() === '') continue
    const at = part.indexOf('=')
    const name = part.slice(0, at).trim()
    if (at < 1 || name === '') return null
    try {
      pairs.push([name, decodeURIComponent(part.slice(at + 1).trim())])
    } catch {
      return null
    }
  }
  return Object.fromEntries(pairs)
}
