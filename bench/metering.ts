/** What the limits add to a request: the same searches by an agent that is counted and by one that is not. */

import { type Bench, type BenchRow, median, quantile } from './bench.ts'
import { openCaller } from './load.ts'
import { openPlatformStage } from './platform-stage.ts'
import { createPointSource } from './points.ts'

const points = 2_000
/** Many short rounds: the quieter half of them counts, chosen by both kinds together, so that neither is favoured. */
const rounds = 40
const requests = 60
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
      const found: Round[] = []
      for (let round = 0; round <= rounds; round++) {
        const took: Record<'free' | 'metered', number[]> = { free: [], metered: [] }
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
        const p95 = { free: quantile(took.free, 0.95), metered: quantile(took.metered, 0.95) }
        report(
          `  round ${round}: counted ${p95.metered.toFixed(3)} ms, not counted ${p95.free.toFixed(3)} ms`,
        )
        if (round === 0) continue // The first round warms both up.
        found.push(p95)
      }
      return [rowOf(found)]
    } finally {
      await caller.close()
      await stage.close()
    }
  },
}

/** The p95 of each kind in one round, in ms. */
interface Round {
  free: number
  metered: number
}

function rowOf(found: Round[]): BenchRow {
  const quieter = [...found].sort((a, b) => a.free + a.metered - b.free - b.metered).slice(0, rounds / 2)
  const shown = (kind: keyof Round) => median(quieter.map((round) => round[kind])).toFixed(3)
  return {
    what: 'added to the p95 of a search',
    unit: 'ms',
    measured: median(quieter.map(({ free, metered }) => metered - free)),
    bar: { max: 0.2 },
    note: `median of the quieter ${rounds / 2} of ${rounds} rounds: counted ${shown('metered')} ms, not counted ${shown('free')} ms`,
  }
}
