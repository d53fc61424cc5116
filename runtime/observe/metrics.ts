/** One registry of metrics per process, with Node's own figures in it, and those of the data directory. */

import { lstat, readdir, statfs } from 'node:fs/promises'
import { join } from 'node:path'
import { collectDefaultMetrics, Gauge, type Metric, Registry } from 'prom-client'

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

interface DiskUse {
  usedBytes: number
  freeBytes: number
}

/** Size of the data directory, and free space on its disk. */
export function exposeDisk(registry: Registry, directory: string): void {
  let kept: { at: number; use: Promise<DiskUse | undefined> } | undefined
  const read = () => {
    if (kept === undefined || performance.now() - kept.at > keptMs) {
      // A directory that cannot be read has no figures; whoever needs it reports the fault.
      kept = { at: performance.now(), use: diskUse(directory).catch(() => undefined) }
    }
    return kept.use
  }
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
