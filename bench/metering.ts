/** The cost of limits for a request: the same searches by an agent that is counted and by one that is not. */

import { type Bench, type BenchRow, quantile } from './bench.ts'
import { openCaller } from './load.ts'
import { openPlatformStage } from './platform-stage.ts'
import { createPointSource } from './points.ts'

const points = 2_000
/** All requests but those of the first round count, which warms both up. */
const rounds = 40
const requests = 150
/** A counted agent of the tier research-agent may begin 200 in a second. */
const pauseMs = 6

export const meteringBench: Bench = {
  name: 'metering',
  purpose:
    'what counting an operation adds to the p95 of a search: the same requests, turn by turn, counted and not',
  async run(report) {
    const stage = await openPlatformStage()
    const caller = openCaller(stage.vectorUrl)
    const source = createPointSource(5)
    try {
      const batch = Array.from({ length: points }, (_, n) => source.point(`point-${n}`))
      for (let from = 0; from < points; from += 500) {
        const body = Buffer.from(
          JSON.stringify({ collection: 'posts', points: batch.slice(from, from + 500) }),
        )
        await caller.post('/v1/vectors/upsert?wait=true', body, { authorization: `Bearer ${stage.key}` })
      }
      const took: Took = { free: [], metered: [] }
      for (let round = 0; round <= rounds; round++) {
        if (round === 1) took.free.length = took.metered.length = 0
        // Turn by turn, so that whatever else the machine does meets both alike.
        for (let n = 0; n < requests; n++) {
          const body = Buffer.from(
            JSON.stringify({ collection: 'posts', vector: source.vector(), limit: 10 }),
          )
          const order = n % 2 === 0 ? (['free', 'metered'] as const) : (['metered', 'free'] as const)
          for (const kind of order) {
            const key = kind === 'free' ? stage.key : stage.meteredKey
            took[kind].push(await caller.post('/v1/vectors/search', body, { authorization: `Bearer ${key}` }))
          }
          await new Promise((resolve) => setTimeout(resolve, pauseMs))
        }
        if (round % 10 === 0) report(`  round ${round} of ${rounds}: ${textOf(took)}`)
      }
      return [rowOf(took)]
    } finally {
      await caller.close()
      await stage.close()
    }
  },
}

/** How long each request took, in ms. */
type Took = Record<'free' | 'metered', number[]>

function textOf({ free, metered }: Took): string {
  return `counted ${quantile(metered, 0.95).toFixed(3)} ms, not counted ${quantile(free, 0.95).toFixed(3)} ms`
}

function rowOf(took: Took): BenchRow {
  return {
    what: 'p95 of a search that counts against limits',
    unit: 'ms',
    measured: quantile(took.metered, 0.95),
    peer: { what: 'of one that does not', value: quantile(took.free, 0.95) },
    bar: { max: 1.05 },
    note: `${took.free.length} requests of each kind`,
  }
}
