/** `flotilla stats`: what the collections hold, how their indexes are, how long searches take. */

import type { Command as Program } from 'commander'
import { type StatsResult, statsOperation } from '#operations/stats.ts'
import { windowS } from '#services/vectors/read/observed/latencies.ts'
import { type Cli, describe } from '../cli.ts'
import { table } from '../output.ts'

export function registerStats(program: Program, cli: Cli): void {
  const stats = program
    .command('stats')
    .description(
      'what the collections hold and how long searches take; with a FILE, what a local index holds',
    )
  describe(stats, 'flotilla stats\nflotilla stats index.stidx').action(
    async ({ json }: { json?: boolean }) => {
      await cli.run(statsOperation, {}, { json, render })
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
