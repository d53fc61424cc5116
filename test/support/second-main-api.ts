/** Another instance of the main API on the engines of a running platform; its Postgres and its log can be cut off. */

import { AppError } from '#lib/errors.ts'
import type { Closeable } from '#lib/resource.ts'
import { createHttpApp } from '#runtime/http/app.ts'
import { createMetrics } from '#runtime/observe/metrics.ts'
import type { Platform } from '#runtime/start/platform.ts'
import { mainApi } from '#services/main-api/service.ts'

export interface SecondMainApi extends Closeable {
  url: string
  /** Postgres does not answer: every call fails. */
  databaseAway: boolean
  /** The tails of changes do not come to their ends. */
  tailsStale: boolean
}

export async function openSecondMainApi(platform: Platform): Promise<SecondMainApi> {
  const { relational, eventLog } = platform.engines
  const made: SecondMainApi = {
    url: '',
    databaseAway: false,
    tailsStale: false,
    async close() {
      await app.close()
      await resources.close()
    },
  }
  const fragile = new Proxy(relational, {
    get(object, name) {
      const value = Reflect.get(object, name) as unknown
      if (typeof value !== 'function') return value
      return async (...args: unknown[]) => {
        if (made.databaseAway) throw new AppError('relational_engine_unavailable', 'connect ECONNREFUSED')
        return value.apply(object, args)
      }
    },
  })
  const followed = new Proxy(eventLog, {
    get(object, name) {
      if (name !== 'tail') return Reflect.get(object, name) as unknown
      return async (...args: Parameters<typeof object.tail>) => {
        const tail = await object.tail(...args)
        return {
          ...tail,
          current: () => !made.tailsStale && tail.current(),
          caughtUp: async () => !made.tailsStale && (await tail.caughtUp()),
        }
      }
    },
  })
  const metrics = createMetrics()
  const app = createHttpApp({ name: 'main-api', log: platform.log, metrics })
  const routes = await mainApi.load(platform.env)
  const resources = await routes(app, {
    ...platform,
    metrics,
    engines: { ...platform.engines, relational: fragile, eventLog: followed },
  })
  made.url = await app.listen({ port: 0, host: '127.0.0.1' })
  return made
}
