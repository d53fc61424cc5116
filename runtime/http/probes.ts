/** /livez (the process runs), /readyz (requests may be routed here) and /metrics. */

import type { FastifyInstance } from 'fastify'
import type { Registry } from 'prom-client'
import { addressLimit } from './address-limit.ts'
import type { HttpProcess } from './http-process.ts'
import { sendPage } from './page.ts'

/** Of one address: far more than Prometheus asks for. */
const scrapeRates = [{ count: 100, windowMs: 1_000 }]

export function registerProbes(
  app: FastifyInstance,
  options: { metrics: Registry; process: Pick<HttpProcess, 'metricsOf'>; ready?(): boolean },
): void {
  const hidden = { schema: { hide: true } as object }
  app.get('/livez', hidden, (_request, reply) => reply.send({ status: 'ok' }))
  app.get('/readyz', hidden, (_request, reply) => {
    const ready = options.ready?.() ?? true
    return reply.code(ready ? 200 : 503).send({ status: ready ? 'ok' : 'starting' })
  })
  app.get('/metrics', { ...hidden, onRequest: addressLimit(scrapeRates) }, async (request, reply) =>
    sendPage(request, reply, await options.process.metricsOf(options.metrics)),
  )
}
