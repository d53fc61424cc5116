/** Pings the engines in the background, so that a question about health never hangs on a dead engine. */

import { monitorEventLoopDelay } from 'node:perf_hooks'
import { withTimeout } from '#lib/backoff.ts'
import { deadlines } from '#lib/deadlines.ts'
import type { Closeable } from '#lib/resource.ts'
import type { Engines } from '#runtime/service.ts'

const everyMs = 2_000
const pingTimeoutMs = deadlines.request.healthMs

export interface ComponentHealth {
  status: 'pass' | 'fail' | 'none'
  latency_ms: number | null
}

export type ProbedEngine = 'vector_engine' | 'relational_engine' | 'event_log'

export interface HealthProbe extends Closeable {
  engines(): Record<ProbedEngine, ComponentHealth>
  /** How far behind this process's event loop ran lately. */
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
  let round: Promise<unknown> | undefined
  function probe(): Promise<unknown> {
    round ??= Promise.all(
      names.map(async (name) => {
        latest[name] = await timed(pings[name])
      }),
    ).finally(() => {
      round = undefined
    })
    return round
  }
  const delay = monitorEventLoopDelay({ resolution: 20 })
  delay.enable()
  await probe()
  const timer = setInterval(() => void probe(), everyMs)
  timer.unref()
  return {
    engines: () => latest,
    api: () => ({ status: 'pass', latency_ms: milliseconds(Math.max(0, delay.percentile(50) / 1e6 - 20)) }),
    async close() {
      clearInterval(timer)
      delay.disable()
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
