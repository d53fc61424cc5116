/** One registry of metrics per process, with Node's own figures in it, those of the data directory and of the engines. */

import { lstat, readdir, statfs } from 'node:fs/promises'
import { join } from 'node:path'
import { collectDefaultMetrics, Gauge, type Metric, Registry } from 'prom-client'
import { withTimeout } from '#lib/backoff.ts'
import { deadlines } from '#lib/deadlines.ts'
import type { Engines } from '../start/service.ts'

/** How often the delay of the event loop is sampled. The default, 10 ms, is a third of what an idle platform does. */
const loopSampleMs = 500
/** Walking a large directory costs something: its figures may be this old. */
const keptMs = 30_000

/** Services add theirs to it; /metrics prints it. */
export function createMetrics(): Registry {
  const registry = new Registry()
  collectDefaultMetrics({ register: registry, eventLoopMonitoringPrecision: loopSampleMs })
  return registry
}

/** The metric of this name, made at the first call: the services of a process share its registry. */
export function sharedMetric<M extends Metric>(
  registry: Registry,
  name: string,
  create: (common: { name: string; registers: Registry[] }) => M,
): M {
  // A name belongs to one metric: whoever has made it is another call of the same code.
  return (registry.getSingleMetric(name) as M | undefined) ?? create({ name, registers: [registry] })
}

/** What several gauges and scrapers ask for is read once in so long. */
function readEvery<T>(keptMs: number, read: () => Promise<T>): () => Promise<T> {
  let kept: { at: number; figures: Promise<T> } | undefined
  return () => {
    if (!kept || performance.now() - kept.at > keptMs) kept = { at: performance.now(), figures: read() }
    return kept.figures
  }
}

interface DiskUse {
  usedBytes: number
  freeBytes: number
}

/** Size of the data directory, and free space on its disk. */
export function exposeDisk(registry: Registry, directory: string): void {
  // A directory that cannot be read has no figures; whoever needs it reports the fault.
  const read = readEvery(keptMs, () => diskUse(directory).catch(() => undefined))
  const gauge = (name: string, help: string, value: (use: DiskUse) => number) =>
    new Gauge({
      name: `flotilla_data_directory_${name}_bytes`,
      help,
      registers: [registry],
      async collect() {
        const use = await read()
        this.set(use ? value(use) : Number.NaN)
      },
    })
  gauge('used', 'Disk that the files of the data directory take', ({ usedBytes }) => usedBytes)
  gauge('free', 'Disk that is left where the data directory is', ({ freeBytes }) => freeBytes)
}

async function diskUse(directory: string): Promise<DiskUse> {
  const { bavail, bsize } = await statfs(directory)
  const entries = await readdir(directory, { recursive: true, withFileTypes: true })
  let usedBytes = 0
  for (const entry of entries) {
    if (!entry.isFile()) continue
    // Files come and go meanwhile. As `du` counts: blocks, because files may have holes.
    const file = await lstat(join(entry.parentPath, entry.name)).catch(() => undefined)
    usedBytes += (file?.blocks ?? 0) * 512
  }
  return { usedBytes, freeBytes: bavail * bsize }
}

const pingTimeoutMs = deadlines.request.healthMs
const pingsKeptMs = 2_000

/**
 * Whether the engines of this process answer: asked when somebody scrapes, and not at rest. The mirror is left out: embedded
 * it may rest unopened, distributed it is the relational engine.
 */
export function exposeEngines(registry: Registry, engines: Partial<Engines>): void {
  const named = {
    event_log: engines.eventLog,
    schema_registry: engines.schemaRegistry,
    relational_engine: engines.relational,
    vector_engine: engines.vectors,
  }
  const pings = readEvery(pingsKeptMs, () =>
    Promise.all(Object.entries(named).flatMap(([name, engine]) => (engine ? [pinged(name, engine)] : []))),
  )
  const gauge = (name: string, help: string, value: (seconds: number | null) => number) =>
    new Gauge({
      name,
      help,
      labelNames: ['engine'],
      registers: [registry],
      async collect() {
        for (const { engine, seconds } of await pings()) this.set({ engine }, value(seconds))
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

/** `seconds` is null when it did not answer in time. */
async function pinged(engine: string, asked: { ping(timeoutMs: number): Promise<void> }) {
  const startedAt = performance.now()
  try {
    await withTimeout(asked.ping(pingTimeoutMs), pingTimeoutMs, () => new Error('no answer'))
    return { engine, seconds: (performance.now() - startedAt) / 1_000 }
  } catch {
    return { engine, seconds: null }
  }
}
