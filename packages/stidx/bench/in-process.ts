/** Searches within one process that holds the index open: ours, FTS5 and minisearch over the same records. */

import { readFileSync } from 'node:fs'
import MiniSearch from 'minisearch'
import { quantile } from '../../../bench/bench.ts'
import { openIndex } from '../src/index-file.ts'
import { readJsonl } from '../src/jsonl.ts'
import { openFts5, type Peer } from './fts5.ts'

const limit = 10

export interface Latencies {
  p50: number
  p95: number
}

export function openOurs(file: string): Peer {
  const index = openIndex(file)
  return {
    search: (query, limit) => index.search(query, { limit }).results.map(({ id }) => id),
    close: () => index.close(),
  }
}

/** The same weights; its default scoring and words. It keeps everything in memory. */
export function openMiniSearch(input: string): Peer {
  const fields = ['title', 'slug', 'path', 'body']
  const peer = new MiniSearch({
    fields,
    storeFields: ['id'],
    searchOptions: { boost: { title: 4, slug: 2.67, path: 2.33, body: 1 } },
  })
  readJsonl(input, {
    record: ({ id, title, slug, path, body }) => peer.add({ id, title, slug, path, body }),
    fault({ line, message }) {
      throw new Error(`line ${line}: ${message}`)
    },
  })
  return {
    search: (query, limit) =>
      peer
        .search(query)
        .slice(0, limit)
        .map(({ id }) => String(id)),
    close() {},
  }
}

/** Milliseconds a query: the least of the rounds for each, then the quantiles over the queries. */
export function timeSearches(peer: Peer, queries: readonly string[], rounds: number): Latencies {
  const least = queries.map(() => Number.POSITIVE_INFINITY)
  for (let round = 0; round < rounds; round++) {
    queries.forEach((query, i) => {
      const startedAt = performance.now()
      peer.search(query, limit)
      least[i] = Math.min(least[i]!, performance.now() - startedAt)
    })
  }
  return { p50: quantile(least, 0.5), p95: quantile(least, 0.95) }
}

/** `peer <kind> <file> <queries file> <rounds>` as a process of its own: the heap of one must not slow the others. */
if (process.argv[2] === 'peer') {
  const [kind, file, queriesFile, rounds] = process.argv.slice(3) as [string, string, string, string]
  const queries = JSON.parse(readFileSync(queriesFile, 'utf8')) as string[]
  const open = { ours: openOurs, fts5: openFts5, minisearch: openMiniSearch }[kind]!
  const peer = open(file)
  process.stdout.write(JSON.stringify(timeSearches(peer, queries, Number(rounds))))
  peer.close()
}
