/** Pings the engines in the background, so that a question about health never hangs on a dead engine. */

import { sleep, withTimeout } from '#lib/backoff.ts'
import { deadlines } from '#lib/deadlines.ts'
import type { Closeable } from '#lib/resource.ts'
import type { Engines } from '#runtime/service.ts'

const everyMs = 2_000
/** A timer of this length says how late the event loop is. */
const timerMs = 20
const pingTimeoutMs = deadlines.request.healthMs

export interface ComponentHealth {
  status: 'pass' | 'fail' | 'none'
  latency_ms: number | null
}

export type ProbedEngine = 'vector_engine' | 'relational_engine' | 'event_log'

export interface HealthProbe extends Closeable {
  engines(): Record<ProbedEngine, ComponentHealth>
  /** How far behind this process's event loop was at the last round. */
  api(): ComponentHealth
}

type Pinged = Pick<Engines, 'eventLog' | 'vectors' | 'relational'>

/** Resolves after the first round of pings. */
export async function openHealthProbe(engines: Pinged): Promise<HealthProbe> {
  const latest = {} as Record<ProbedEngine, ComponentHealth>
  const pings: Record<ProbedEngine, () => Promise<void>> = {
    vector_engine: () => engines.vectors.ping(pingTimeoutMs),
    relational_engine: () => engines.relational.ping(pingTimeoutMs),
    event_log: () => engines.eventLog.ping(pingTimeoutMs),
  }
  const names = Object.keys(pings) as ProbedEngine[]
  let delayMs = 0
  let round: Promise<unknown> | undefined
  async function ping(name: ProbedEngine): Promise<void> {
    latest[name] = await timed(pings[name])
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
  await probe()
  const timer = setInterval(() => void probe(), everyMs)
  timer.unref()
  return {
    engines: () => latest,
    api: () => ({ status: 'pass', latency_ms: milliseconds(delayMs) }),
    async close() {
      clearInterval(timer)
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
