/** `flotilla stats`: what the collections hold, how their indexes are, how long searches take. */

import type { Command as Program } from 'commander'
import { readAddresses } from '#runtime/addresses.ts'
import {
  type ObservedCollection,
  observeCollections,
} from '#services/vectors/gateway/observed/collections.ts'
import { searchMetrics, windowS } from '#services/vectors/gateway/observed/latencies.ts'
import { type Cli, describe } from '../cli.ts'
import { defineCommand } from '../command.ts'
import { table } from '../output.ts'

const metricsTimeoutMs = 2_000

interface StatsResult {
  collections: ObservedCollection[]
  /** Of the gateway that runs on this data directory; null where none does. */
  search: { p95_ms: number | null; requests: number; window_s: number } | null
  as_of: string
}

export const statsCommand = defineCommand<object, StatsResult>({
  name: 'stats',
  needs: ['vectors'],
  async run({ platform }) {
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

/** A gateway counts its own searches: they are asked of the one that listens on this machine. */
async function readSearches(home: string): Promise<StatsResult['search']> {
  const url = readAddresses(home)?.vector_url
  if (typeof url !== 'string') return null
  try {
    const answer = await fetch(new URL('/metrics', url), { signal: AbortSignal.timeout(metricsTimeoutMs) })
    const text = await answer.text()
    const readingOf = (name: string) => Number(text.match(new RegExp(`^${name} (\\S+)$`, 'm'))?.[1])
    const p95 = readingOf(searchMetrics.p95)
    const requests = readingOf(searchMetrics.count)
    return { p95_ms: Number.isNaN(p95) ? null : p95, requests: requests || 0, window_s: windowS }
  } catch {
    return null
  }
}

export function registerStats(program: Program, cli: Cli): void {
  const stats = program
    .command('stats')
    .description(
      'what the collections hold and how long searches take; with a FILE, what a local index holds',
    )
  describe(stats, 'flotilla stats\nflotilla stats index.stidx').action(
    async ({ json }: { json?: boolean }) => {
      await cli.run(statsCommand, {}, { json, render })
    },
  )
}

function render({ collections, search }: StatsResult): string {
  const rows = collections.map((one) => [
    one.collection,
    one.points,
    one.index_bytes,
    one.index_status,
    `${Math.round(one.indexed_share * 100)} %`,
  ])
  const p95 = search?.p95_ms == null ? '-' : `${search.p95_ms} ms of ${search.requests} searches`
  return `${table(['collection', 'points', 'index bytes', 'index', 'indexed'], rows)}\nsearch p95 (last ${windowS / 60} minutes)  ${p95}`
}
