/** Whether the engines of this process answer: asked when somebody scrapes, and not at rest. */

import { Gauge, type Registry } from 'prom-client'
import { withTimeout } from '#lib/backoff.ts'
import { deadlines } from '#lib/deadlines.ts'
import type { Engines } from '../start/service.ts'

const pingTimeoutMs = deadlines.request.healthMs
/** Several scrapers, and both figures, share one round of pings. */
const keptMs = 2_000

interface Pinged {
  engine: string
  /** null: it did not answer in time. */
  seconds: number | null
}

/** The mirror is left out: embedded it may rest unopened, distributed it is the relational engine. */
export function exposeEngines(registry: Registry, engines: Partial<Engines>): void {
  const { eventLog, schemaRegistry, relational, vectors } = engines
  const pings: [string, (() => Promise<void>) | undefined][] = [
    ['event_log', eventLog && (() => eventLog.ping(pingTimeoutMs))],
    ['schema_registry', schemaRegistry && (() => schemaRegistry.ping(pingTimeoutMs))],
    ['relational_engine', relational && (() => relational.ping(pingTimeoutMs))],
    ['vector_engine', vectors && (() => vectors.ping(pingTimeoutMs))],
  ]
  let kept: { at: number; round: Promise<Pinged[]> } | undefined
  const latest = () => {
    if (kept === undefined || performance.now() - kept.at > keptMs) {
      const asks = pings.flatMap(([engine, ping]) => (ping ? [ask(engine, ping)] : []))
      kept = { at: performance.now(), round: Promise.all(asks) }
    }
    return kept.round
  }
  const gauge = (name: string, help: string, value: (seconds: number | null) => number) =>
    new Gauge({
      name,
      help,
      labelNames: ['engine'],
      registers: [registry],
      async collect() {
        for (const { engine, seconds } of await latest()) this.set({ engine }, value(seconds))
      },
    })
  gauge('flotilla_unreachable_engine', '1 when the engine does not answer', (seconds) =>
    seconds === null ? 1 : 0,
  )
  gauge(
    'flotilla_engine_ping_seconds',
    'How long the engine took to answer; NaN when it did not',
    (seconds) => seconds ?? Number.NaN,
  )
}

async function ask(engine: string, ping: () => Promise<void>): Promise<Pinged> {
  const startedAt = performance.now()
  try {
    await withTimeout(ping(), pingTimeoutMs, () => new Error('no answer'))
    return { engine, seconds: (performance.now() - startedAt) / 1_000 }
  } catch {
    return { engine, seconds: null }
  }
}
