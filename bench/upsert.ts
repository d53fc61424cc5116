/** Upserts through gateway, log and writer beside durable upserts straight into the same engine. */

import { type Bench, median } from './bench.ts'
import { openCaller, type Target } from './load.ts'
import { openPlatformStage } from './platform-stage.ts'
import { createPointSource } from './points.ts'

const pointsPerRequest = 100
const requests = 80
const clients = 4
const rounds = 5

export const upsertBench: Bench = {
  name: 'upsert',
  purpose:
    'points a second, durable and applied: gateway, log and writer beside a bare route that upserts into the same engine',
  async run(report) {
    const stage = await openPlatformStage()
    const source = createPointSource(3)
    const bodies = Array.from({ length: requests }, (_, n) => {
      const points = Array.from({ length: pointsPerRequest }, (_, i) => source.point(`point-${n}-${i}`))
      return Buffer.from(JSON.stringify({ collection: 'knowledgebase', points }))
    })
    const floor: Target = { origin: stage.floorUrl, path: '/upsert', headers: {} }
    const gateway: Target = {
      origin: stage.vectorUrl,
      path: '/v1/vectors/upsert?wait=true',
      headers: { authorization: `Bearer ${stage.key}` },
    }
    const rates: { floor: number[]; gateway: number[] } = { floor: [], gateway: [] }
    try {
      for (let round = 0; round <= rounds; round++) {
        const bare = await pointsPerSecond(floor, bodies)
        const through = await pointsPerSecond(gateway, bodies)
        report(`  round ${round}: gateway ${Math.round(through)}, floor ${Math.round(bare)} points/s`)
        if (round === 0) continue // The first round warms both up.
        rates.floor.push(bare)
        rates.gateway.push(through)
      }
    } finally {
      await stage.close()
    }
    return [
      {
        what: `requests of ${pointsPerRequest} points, ${clients} clients, each waits until applied`,
        unit: 'points/s',
        measured: median(rates.gateway),
        peer: { what: 'bare route', value: median(rates.floor) },
        ratio: median(rates.gateway.map((rate, round) => rate / rates.floor[round]!)),
        bar: { min: 0.7 },
      },
    ]
  },
}

async function pointsPerSecond(target: Target, bodies: readonly Buffer[]): Promise<number> {
  const begun = performance.now()
  let next = 0
  const work = async () => {
    const caller = openCaller(target.origin)
    while (next < bodies.length) await caller.post(target.path, bodies[next++]!, target.headers)
    await caller.close()
  }
  await Promise.all(Array.from({ length: clients }, work))
  return (bodies.length * pointsPerRequest) / ((performance.now() - begun) / 1000)
}
