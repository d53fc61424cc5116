/** /livez (the process runs), /readyz (requests may be routed here) and /metrics. */

import type { FastifyInstance } from 'fastify'
import type { Registry } from 'prom-client'

export function registerProbes(
  app: FastifyInstance,
  options: { metrics: Registry; ready?(): boolean },
): void {
  const hidden = { schema: { hide: true } as object }
  app.get('/livez', hidden, (_request, reply) => reply.send({ status: 'ok' }))
  app.get('/readyz', hidden, (_request, reply) => {
    const ready = options.ready?.() ?? true
    return reply.code(ready ? 200 : 503).send({ status: ready ? 'ok' : 'starting' })
  })
  app.get('/metrics', hidden, async (_request, reply) => {
    const text = await options.metrics.metrics()
    return reply.type(options.metrics.contentType).send(text)
  })
}
