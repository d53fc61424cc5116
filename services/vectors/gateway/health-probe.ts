/**
 * Pings the engines in the background while somebody asks for health, so that a question never hangs on a dead engine;
 * the first question after a while waits for one round of pings.
 */

import { sleep, withTimeout } from '#lib/backoff.ts'
import { deadlines } from '#lib/deadlines.ts'
import type { Closeable } from '#lib/resource.ts'
import type { Engines } from '#runtime/start/service.ts'

const everyMs = 2_000
/** Nobody has asked for this time: the pings rest. */
const restAfterMs = 60_000
/** A timer of this length says how late the event loop is. */
const timerMs = 20
const pingTimeoutMs = deadlines.request.healthMs

export interface ComponentHealth {
  status: 'pass' | 'fail' | 'none'
  latency_ms: number | null
}

type ProbedEngine = 'vector_engine' | 'relational_engine' | 'event_log'

export interface Health extends Record<ProbedEngine, ComponentHealth> {
  /** How far behind this process's event loop was. */
  api: ComponentHealth
}

export interface HealthProbe extends Closeable {
  /** What the last round found; never rejects. */
  latest(): Promise<Health>
}

type Pinged = Pick<Engines, 'eventLog' | 'vectors' | 'relational'>

export function createHealthProbe(engines: Pinged): HealthProbe {
  const found = {} as Record<ProbedEngine, ComponentHealth>
  const pings: Record<ProbedEngine, () => Promise<void>> = {
    vector_engine: () => engines.vectors.ping(pingTimeoutMs),
    relational_engine: () => engines.relational.ping(pingTimeoutMs),
    event_log: () => engines.eventLog.ping(pingTimeoutMs),
  }
  const names = Object.keys(pings) as ProbedEngine[]
  let delayMs = 0
  let round: Promise<unknown> | undefined
  async function ping(name: ProbedEngine): Promise<void> {
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
      return { api: { status: 'pass', latency_ms: milliseconds(delayMs) }, ...found }
    },
    async close() {
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
