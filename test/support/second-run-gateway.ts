/** Another instance of the run gateway on the engines of a running platform, whose log can be silenced. */

import type { Closeable } from '#lib/resource.ts'
import { createHttpApp } from '#runtime/http/app.ts'
import { createMetrics } from '#runtime/observe/metrics.ts'
import type { Platform } from '#runtime/start/platform.ts'
import { runGateway } from '#services/runs/gateway/service.ts'

export interface SecondRunGateway extends Closeable {
  url: string
  /** Its tails bring nothing. */
  logSilent: boolean
  /** Drops every connection, as a killed process does. */
  drop(): void
}

export async function openSecondRunGateway(platform: Platform): Promise<SecondRunGateway> {
  const { eventLog } = platform.engines
  const made: SecondRunGateway = {
    url: '',
    logSilent: false,
    drop: () => app.server.closeAllConnections(),
    async close() {
      await app.close()
      await resources.close()
    },
  }
  const fragile = new Proxy(eventLog, {
    get(object, name) {
      if (name !== 'tail') return Reflect.get(object, name) as unknown
      return async (options: Parameters<typeof object.tail>[0]) =>
        object.tail({
          ...options,
          records(partition, records) {
            if (!made.logSilent) options.records(partition, records)
          },
        })
    },
  })
  const metrics = createMetrics()
  const app = createHttpApp({ name: 'run-gateway', log: platform.log, metrics })
  const routes = await runGateway.load(platform.env)
  const resources = await routes(app, {
    ...platform,
    metrics,
    engines: { ...platform.engines, eventLog: fragile },
  })
  made.url = await app.listen({ port: 0, host: '127.0.0.1' })
  return made
}
