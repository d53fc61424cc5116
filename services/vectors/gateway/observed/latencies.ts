/** How long answers took in, the quantile of the last five minutes out: counts in steps of 4 %, in bounded memory. */

import { Gauge, type Registry } from 'prom-client'

const sliceMs = 10_000
const slices = 30
const leastMs = 0.05
const step = 1.04
/** The last bucket takes everything above a minute. */
const buckets = Math.ceil(Math.log(60_000 / leastMs) / Math.log(step)) + 1

export const windowS = (sliceMs * slices) / 1_000

export interface Latencies {
  note(tookMs: number): void
  /** The value in ms below which `share` (0..1) of the answers of the window lie; null when there are none. */
  quantile(share: number): number | null
  /** Answers of the window. */
  count(): number
}

export function createLatencies(now: () => number = () => performance.now()): Latencies {
  const counts = Array.from({ length: slices }, () => new Uint32Array(buckets))
  const began = new Array<number>(slices).fill(Number.NEGATIVE_INFINITY)

  /** The slice of this moment, emptied when it is an old one. */
  function current(): Uint32Array {
    const number = Math.floor(now() / sliceMs)
    const at = number % slices
    if (began[at] !== number) {
      began[at] = number
      counts[at]!.fill(0)
    }
    return counts[at]!
  }
  function recent(): Uint32Array[] {
    const oldest = Math.floor(now() / sliceMs) - slices
    return counts.filter((_, at) => began[at]! > oldest)
  }
  function total(bucket: number): number {
    return recent().reduce((sum, slice) => sum + slice[bucket]!, 0)
  }

  return {
    note(tookMs) {
      const slice = current()
      const bucket = bucketOf(tookMs)
      slice[bucket] = slice[bucket]! + 1
    },
    quantile(share) {
      const all = Array.from({ length: buckets }, (_, bucket) => total(bucket))
      const wanted = Math.ceil(all.reduce((sum, count) => sum + count, 0) * share)
      if (wanted === 0) return null
      let seen = 0
      const bucket = all.findIndex((count) => {
        seen += count
        return seen >= wanted
      })
      return Number(middleOf(bucket).toPrecision(3))
    },
    count: () => recent().reduce((sum, slice) => sum + slice.reduce((all, one) => all + one, 0), 0),
  }
}

function bucketOf(tookMs: number): number {
  if (!(tookMs > leastMs)) return 0
  return Math.min(buckets - 1, Math.ceil(Math.log(tookMs / leastMs) / Math.log(step)))
}

/** The middle of a bucket, by ratio: at most 2 % from any value in it. */
function middleOf(bucket: number): number {
  return bucket === 0 ? leastMs : leastMs * step ** (bucket - 0.5)
}

export const searchMetrics = {
  p95: 'vector_gateway_search_p95_milliseconds',
  count: 'vector_gateway_search_recent',
} as const

/** Puts the p95 and the number of searches of the window into the process's metrics. */
export function exposeSearches(registry: Registry, latencies: Latencies): void {
  const gauges = [
    { name: searchMetrics.p95, help: 'p95 of searches', value: () => latencies.quantile(0.95) ?? Number.NaN },
    { name: searchMetrics.count, help: 'Searches answered', value: latencies.count },
  ]
  for (const { name, help, value } of gauges) {
    // A gateway that was opened anew in this process takes the place of the former one.
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
