/** Which variables turn tracing on, and what becomes of faulty ones. */

import { expect, test } from 'vitest'
import { tracingOptionsOf } from '#runtime/observe/tracing/settings.ts'

const endpoint = { OTEL_EXPORTER_OTLP_ENDPOINT: 'http://collector:4318/' }

test('tracing is off without a variable that asks for it, and where one forbids it', () => {
  expect(tracingOptionsOf({})).toBeUndefined()
  expect(tracingOptionsOf({ OTEL_SERVICE_NAME: 'x', OTEL_TRACES_SAMPLER: 'always_on' })).toBeUndefined()
  expect(tracingOptionsOf({ ...endpoint, OTEL_SDK_DISABLED: 'true' })).toBeUndefined()
  expect(tracingOptionsOf({ ...endpoint, OTEL_TRACES_EXPORTER: 'none' })).toBeUndefined()
})

test('spans go below the endpoint, or to a whole URL, or to the default one', () => {
  expect(tracingOptionsOf(endpoint)?.url).toBe('http://collector:4318/v1/traces')
  const whole = { ...endpoint, OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: 'https://other/otlp?x=1' }
  expect(tracingOptionsOf(whole)?.url).toBe('https://other/otlp?x=1')
  expect(tracingOptionsOf({ OTEL_TRACES_EXPORTER: 'otlp' })?.url).toBe('http://localhost:4318/v1/traces')
})

test('headers and attributes are pairs, percent-encoded', () => {
  const options = tracingOptionsOf({
    ...endpoint,
    OTEL_EXPORTER_OTLP_HEADERS: 'authorization=Basic%20YTpi=,x-tenant = one ,',
    OTEL_RESOURCE_ATTRIBUTES: 'deployment.environment.name=a%2Cb',
  })
  expect(options?.headers).toEqual({ authorization: 'Basic YTpi=', 'x-tenant': 'one' })
  expect(options?.resource).toEqual({ 'deployment.environment.name': 'a,b' })
})

test('faults name the variable and never its value', () => {
  const faulty: Record<string, string>[] = [
    { OTEL_EXPORTER_OTLP_HEADERS: 'authorization' },
    { OTEL_EXPORTER_OTLP_HEADERS: 'authorization=%zz-secret' },
    { OTEL_EXPORTER_OTLP_PROTOCOL: 'grpc' },
    { OTEL_TRACES_SAMPLER: 'sometimes' },
    { OTEL_TRACES_SAMPLER_ARG: '2' },
    { OTEL_EXPORTER_OTLP_ENDPOINT: 'secret-host' },
    { OTEL_RESOURCE_ATTRIBUTES: '=x' },
  ]
  for (const env of faulty) {
    const [name = ''] = Object.keys(env)
    const message = messageOf(() => tracingOptionsOf(env))
    expect(message).toContain(name)
    expect(message).not.toContain('secret')
  }
})

function messageOf(work: () => unknown): string {
  try {
    work()
  } catch (error) {
    return (error as Error).message
  }
  throw new Error('no fault')
}
