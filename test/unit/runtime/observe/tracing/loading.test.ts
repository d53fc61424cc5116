/** The SDK of OpenTelemetry costs memory and time to load: a process without tracing has nothing of it. */

import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import { expect, test } from 'vitest'
import { projectFolder } from '../../../../support/pages.ts'

/** The modules of the SDK that a process has loaded that knows and loads all services. */
async function sdkModules(settings: Record<string, string>): Promise<number> {
  const script = `
    const { registerHooks } = await import('node:module')
    const loaded = new Set()
    registerHooks({ load: (url, context, next) => (loaded.add(url), next(url, context)) })
    await import('#runtime/start/start.ts')
    const { services } = await import('#services/index.ts')
    for (const service of services) await service.load?.({})
    const { openTracing } = await import('#runtime/observe/tracing/open-tracing.ts')
    const { createMetrics } = await import('#runtime/observe/metrics.ts')
    const parts = { log: { info() {} }, metrics: createMetrics(), serviceName: 'x', instanceId: 'x' }
    await openTracing({ env: ${JSON.stringify(settings)}, ...parts })
    const ofSdk = /@opentelemetry.(sdk|exporter|otlp|resources|core)/
    console.log([...loaded].filter((url) => ofSdk.test(url)).length)
    process.exit()`
  const { stdout } = await promisify(execFile)(process.execPath, ['--input-type=module', '-e', script], {
    cwd: projectFolder,
    timeout: 60_000,
  })
  return Number(stdout)
}

test('the SDK is loaded where tracing is on, and nowhere else', { timeout: 120_000 }, async () => {
  const endpoint = { OTEL_EXPORTER_OTLP_ENDPOINT: 'http://127.0.0.1:9' }
  expect(await sdkModules({})).toBe(0)
  expect(await sdkModules({ ...endpoint, OTEL_SDK_DISABLED: 'true' })).toBe(0)
  expect(await sdkModules(endpoint)).toBeGreaterThan(10)
})
