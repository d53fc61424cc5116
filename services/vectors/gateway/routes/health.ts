/** GET /v1/health: open to all, answered from a background probe. */

import type { TypeBoxTypeProvider } from '@fastify/type-provider-typebox'
import type { FastifyInstance, FastifyRequest } from 'fastify'
import { type Static, Type } from 'typebox'
import { sleep, withTimeout } from '#lib/backoff.ts'
import { deadlines } from '#lib/deadlines.ts'
import type { Engines } from '#runtime/start/service.ts'

const component = Type.Object(
  {
    status: Type.Enum(['pass', 'fail', 'none'], { type: 'string' }),
    latency_ms: Type.Union([Type.Number(), Type.Null()]),
  },
  { title: 'ComponentHealth' },
)

type ComponentHealth = Static<typeof component>

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

export function registerHealth(scope: FastifyInstance, health: ReturnType<typeof createHealthProbe>): void {
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
      const components = { proxy: proxyOf(request), ...(await health.latest()) }
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

const everyMs = 2_000
/** Nobody has asked for this time: the pings rest. */
const restAfterMs = 60_000
/** A timer of this length says how late the event loop is. */
const timerMs = 20
const pingTimeoutMs = deadlines.request.healthMs

/**
 * Pings the engines in the background while somebody asks for health, so that a question never hangs on a dead engine;
 * the first question after a while waits for one round of pings.
 */
export function createHealthProbe(engines: Pick<Engines, 'eventLog' | 'vectors' | 'relational'>) {
  const pings = {
    vector_engine: () => engines.vectors.ping(pingTimeoutMs),
    relational_engine: () => engines.relational.ping(pingTimeoutMs),
    event_log: () => engines.eventLog.ping(pingTimeoutMs),
  }
  const names = Object.keys(pings) as (keyof typeof pings)[]
  const found = {} as Record<keyof typeof pings, ComponentHealth>
  let delayMs = 0
  let round: Promise<unknown> | undefined
  async function ping(name: keyof typeof pings): Promise<void> {
    found[name] = await timed(pings[name])
  }
  async function measureDelay(): Promise<void> {
    const begun = performance.now()
    await sleep(timerMs)
    delayMs = Math.max(0, performance.now() - begun - timerMs)
  }
  function probe(): Promise<unknown> {
    round ??= Promise.all([...names.map(ping), measureDelay()]).finally(() => {
      round = undefined
    })
    return round
  }
  let askedAtMs = 0
  let timer: NodeJS.Timeout | undefined
  /** The first round since somebody asks. */
  let first: Promise<unknown> | undefined
  function rest(): void {
    clearInterval(timer)
    timer = undefined
  }
  return {
    /** What the last round found; never rejects. `api`: how far behind this process's event loop was. */
    async latest() {
      askedAtMs = performance.now()
      if (timer === undefined) {
        timer = setInterval(() => {
          if (performance.now() - askedAtMs > restAfterMs) rest()
          else void probe()
        }, everyMs).unref()
        first = probe()
      }
      await first
      const api: ComponentHealth = { status: 'pass', latency_ms: milliseconds(delayMs) }
      return { api, ...found }
    },
    async close(): Promise<void> {
      rest()
      await round
    },
  }
}

async function timed(ping: () => Promise<void>): Promise<ComponentHealth> {
  const begun = performance.now()
  try {
    await withTimeout(ping(), pingTimeoutMs, () => new Error('no answer'))
    return { status: 'pass', latency_ms: milliseconds(performance.now() - begun) }
  } catch {
    return { status: 'fail', latency_ms: milliseconds(performance.now() - begun) }
  }
}

function milliseconds(value: number): number {
  return Math.round(value * 100) / 100
}
