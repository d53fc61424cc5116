/** GET /v1/health: open to all, answered from the background probe. */

import type { TypeBoxTypeProvider } from '@fastify/type-provider-typebox'
import type { FastifyInstance, FastifyRequest } from 'fastify'
import { type Static, Type } from 'typebox'
import type { Gateway } from '../gateway.ts'
import type { ComponentHealth } from '../health-probe.ts'

const component = Type.Object(
  {
    status: Type.Enum(['pass', 'fail', 'none'], { type: 'string' }),
    latency_ms: Type.Union([Type.Number(), Type.Null()]),
  },
  { title: 'ComponentHealth' },
)

const answer = Type.Object(
  {
    status: Type.Enum(['pass', 'degraded', 'fail'], { type: 'string' }),
    components: Type.Object({
      proxy: component,
      api: component,
      vector_engine: component,
      relational_engine: component,
      event_log: component,
    }),
  },
  {
    title: 'Health',
    description:
      'degraded when the relational engine alone fails: agents with a known key go on with what their gateway has ' +
      'leased of their limits; fail when another component does.',
  },
)

export function registerHealth(scope: FastifyInstance, gateway: Pick<Gateway, 'health'>): void {
  scope.withTypeProvider<TypeBoxTypeProvider>().get(
    '/health',
    {
      config: { problems: [] },
      schema: {
        operationId: 'getHealth',
        tags: ['platform'],
        summary: 'Liveness of proxy, API layer, vector engine, relational engine and event log',
        response: { 200: answer, 503: answer },
      },
    },
    async (request, reply): Promise<Static<typeof answer>> => {
      const components = { proxy: proxyOf(request), ...(await gateway.health.latest()) }
      const failing = Object.entries(components).filter(([, one]) => one.status === 'fail')
      reply.code(failing.length > 0 ? 503 : 200)
      return { status: statusOf(failing.map(([name]) => name)), components }
    },
  )
}

function statusOf(failing: string[]): 'pass' | 'degraded' | 'fail' {
  if (failing.length === 0) return 'pass'
  return failing.every((name) => name === 'relational_engine') ? 'degraded' : 'fail'
}

/** A request that came through a trusted proxy shows that it lives; nothing is known of one that did not. */
function proxyOf(request: FastifyRequest): ComponentHealth {
  return { status: (request.ips?.length ?? 0) > 1 ? 'pass' : 'none', latency_ms: null }
}
