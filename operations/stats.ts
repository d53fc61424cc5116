/** What the collections hold, how their indexes are, how long searches take. */

import { Type } from 'typebox'
import { readAddresses } from '#runtime/start/addresses.ts'
import { listCollections } from '#services/vectors/collections/rows.ts'
import { observeCollections, searchMetrics, windowS } from '#services/vectors/read/observed.ts'
import { type Action, defineAction, tableOf } from './action.ts'

const metricsTimeoutMs = 5_000

export const statsAction = defineAction({
  name: 'stats',
  summary: 'The collections and their indexes',
  needs: ['vectors'],
  args: Type.Object({}),
  async run({ platform }) {
    const [collections, search] = await Promise.all([
      observeCollections(platform.engines.vectors, () => listCollections(platform.engines.relational)),
      readSearches(platform.home),
    ])
    return { collections, search, as_of: new Date().toISOString() }
  },
  cli: [
    {
      summary: 'What the collections hold; with a FILE, what a local index holds',
      example: 'flotilla stats\nflotilla stats index.stidx',
      render: ({ collections, search }) => {
        const p95 = search?.p95_ms == null ? '-' : `${search.p95_ms} ms of ${search.requests} searches`
        return [
          tableOf(collections, {
            collection: ({ collection }) => collection,
            points: ({ points }) => points,
            'index bytes': ({ index_bytes }) => index_bytes,
            index: indexOf,
          }),
          `search p95 (last ${windowS / 60} minutes)  ${p95}`,
        ]
      },
    },
  ],
})

/** An engine searches few points exactly, without an index, which is no fault. */
function indexOf({
  index_status: status,
  indexed_share: share,
}: {
  index_status: string
  indexed_share: number
}) {
  if (status !== 'ready') return `${status}, ${Math.round(share * 100)} %`
  if (share === 0) return 'exact search (small)'
  return share === 1 ? status : `${status}, ${Math.round(share * 100)} %`
}

export const statsActions: readonly Action[] = [statsAction]

/** Of the gateway that runs on this data directory, which counts its own searches; null where none does. */
async function readSearches(home: string) {
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
