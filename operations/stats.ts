/** What the collections hold, how their indexes are, how long searches take. */

import { Type } from 'typebox'
import { readAddresses } from '#runtime/start/addresses.ts'
import { type ObservedCollection, observeCollections } from '#services/vectors/read/observed/collections.ts'
import { searchMetrics, windowS } from '#services/vectors/read/observed/latencies.ts'
import { defineOperation } from './operation.ts'

const metricsTimeoutMs = 5_000

export interface StatsResult {
  collections: ObservedCollection[]
  /** Of the gateway that runs on this data directory; null where none does. */
  search: { p95_ms: number | null; requests: number; window_s: number } | null
  as_of: string
}

export const statsOperation = defineOperation({
  name: 'stats',
  needs: ['vectors'],
  args: Type.Object({}),
  async run({ platform }): Promise<StatsResult> {
    const [collections, search] = await Promise.all([
      observeCollections(platform.engines.vectors),
      readSearches(platform.home),
    ])
    return {
      collections,
      search,
      as_of: new Date().toISOString(),
    }
  },
})

/** A gateway counts its own searches: the one that listens on this machine is asked for its metrics. */
async function readSearches(home: string): Promise<StatsResult['search']> {
  const url = readAddresses(home)?.vector_url
  if (typeof url !== 'string') return null
  try {
    const answer = await fetch(new URL('/metrics', url), { signal: AbortSignal.timeout(metricsTimeoutMs) })
    const text = await answer.text()
    const readingOf = (name: string) => Number(text.match(new RegExp(`^${name} (\\S+)$`, 'm'))?.[1])
    const p95Ms = readingOf(searchMetrics.p95) * 1_000
    const requests = readingOf(searchMetrics.count)
    return {
      p95_ms: Number.isNaN(p95Ms) ? null : Number(p95Ms.toPrecision(3)),
      requests: requests || 0,
      window_s: windowS,
    }
  } catch {
    return null
  }
}
