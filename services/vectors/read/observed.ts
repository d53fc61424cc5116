/**
 * The figures of the gateway: what the collections hold, and how long answers took in the last five minutes, as quantiles:
 * Node's own histograms, one for each ten seconds.
 */

import { createHistogram, type RecordableHistogram } from 'node:perf_hooks'
import { Gauge, type Registry } from 'prom-client'
import type { VectorStore } from '#engines/vectors/port.ts'
import type { Collection } from '../collections/rows.ts'

const sliceMs = 10_000
const slices = 30
/** Microseconds, to two significant digits: at most 1 % off. What took longer than a minute counts as a minute. */
const precision = { lowest: 1, highest: 60_000_000, figures: 2 }

export const windowS = (sliceMs * slices) / 1_000

export type Latencies = ReturnType<typeof createLatencies>

export function createLatencies(now: () => number = () => performance.now()) {
  /** By the number of their slice. */
  const bySlice = new Map<number, RecordableHistogram>()
  const numberNow = () => Math.floor(now() / sliceMs)

  function recent(): RecordableHistogram[] {
    const oldest = numberNow() - slices
    for (const number of bySlice.keys()) if (number <= oldest) bySlice.delete(number)
    return [...bySlice.values()]
  }

  return {
    note(tookMs: number): void {
      const number = numberNow()
      let slice = bySlice.get(number)
      if (!slice) {
        recent()
        slice = createHistogram(precision)
        bySlice.set(number, slice)
      }
      slice.record(Math.min(precision.highest, Math.max(precision.lowest, Math.round(tookMs * 1_000))))
    },
    /** The value in ms below which `share` (0..1) of the answers of the window lie; null when there are none. */
    quantile(share: number): number | null {
      const all = createHistogram(precision)
      for (const slice of recent()) all.add(slice)
      if (all.count === 0) return null
      // The histogram rounds to the nearest rank; the share must lie at or below the value.
      const rank = Math.ceil(all.count * share)
      return Number((all.percentile((100 * rank) / all.count) / 1_000).toPrecision(3))
    },
    /** Answers of the window. */
    count: (): number => recent().reduce((sum, slice) => sum + slice.count, 0),
  }
}

export const searchMetrics = {
  p95: 'vector_gateway_search_p95_seconds',
  count: 'vector_gateway_recent_searches',
} as const

/** Puts the p95 and the number of searches of the window into the process's metrics. */
export function exposeSearches(registry: Registry, latencies: Latencies): void {
  const gauges = [
    {
      name: searchMetrics.p95,
      help: 'p95 of searches',
      value: () => (latencies.quantile(0.95) ?? Number.NaN) / 1_000,
    },
    { name: searchMetrics.count, help: 'Searches answered', value: latencies.count },
  ]
  for (const { name, help, value } of gauges) {
    // A gateway that was opened again in this process takes the place of the former one.
    registry.removeSingleMetric(name)
    new Gauge({
      name,
      help: `${help}, of the last ${windowS} s`,
      registers: [registry],
      collect() {
        this.set(value())
      },
    })
  }
}

/** The figures of a collection that no point was written into. */
const nothing = { points: 0, indexBytes: 0, status: 'ready', indexedShare: 1 } as const

/** The collections as callers see them. Throws AppError `vector_engine_unavailable`, and what `list` does. */
export async function observeCollections(
  vectors: Pick<VectorStore, 'stats'>,
  list: () => Promise<Collection[]>,
) {
  const [stats, there] = await Promise.all([vectors.stats(), list()])
  const byStored = new Map(stats.map((one) => [one.collection, one]))
  return there.map(({ name, stored, description, created_by, created_at }) => {
    const { points, indexBytes, status, indexedShare } = byStored.get(stored) ?? nothing
    return {
      collection: name,
      description,
      created_by,
      created_at: created_at.toISOString(),
      points,
      index_bytes: indexBytes,
      index_status: status,
      indexed_share: indexedShare,
    }
  })
}
