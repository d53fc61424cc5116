/** Upserts through gateway, log and writer compared with durable upserts straight into the same engine. */

import { type Bench, type BenchRow, median } from './bench.ts'
import { openCaller, type Target } from './load.ts'
import { openPlatformStage, type PlatformStage } from './platform-stage.ts'
import { createPointSource } from './points.ts'

const pointsPerRound = 8_000
const clients = 4
const rounds = 7

export const upsertBench: Bench = {
  name: 'upsert',
  purpose:
    'points a second, durable and applied: gateway, log and writer compared with a bare route that upserts into the same engine',
  async run(report) {
    const without = ['relational-writer']
    const thousand = await onStage(without, (stage) => compare(stage, 1_000, report))
    // With 100 points each partition of the log gets eight, a batch of its own.
    const hundred = await onStage(without, (stage) => compare(stage, 100, report))
    const mirrored = await onStage([], (stage) => compare(stage, 1_000, report))
    return [
      { ...thousand, bar: { min: 0.7 } },
      { ...hundred, bar: { min: 0.8 } },
      { ...mirrored, what: `${mirrored.what}; while the relational-writer runs` },
    ]
  },
}

/** Each row on a platform of its own: where one follows another, the graph of all points is built meanwhile. */
async function onStage<T>(without: string[], work: (stage: PlatformStage) => Promise<T>): Promise<T> {
  const stage = await openPlatformStage(without)
  try {
    return await work(stage)
  } finally {
    await stage.close()
  }
}

/** Floor and gateway in turn with requests of one size; the ratio of each round, and their median. */
async function compare(
  stage: PlatformStage,
  pointsPerRequest: number,
  report: (text: string) => void,
): Promise<BenchRow> {
  const source = createPointSource(3)
  const bodies = Array.from({ length: pointsPerRound / pointsPerRequest }, (_, n) => {
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
  for (let round = 0; round <= rounds; round++) {
    const bare = await pointsPerSecond(floor, bodies)
    const through = await pointsPerSecond(gateway, bodies)
    report(
      `  requests of ${pointsPerRequest}, round ${round}: gateway ${Math.round(through)}, floor ${Math.round(bare)} points/s`,
    )
    if (round === 0) continue // The first round warms both up.
    rates.floor.push(bare)
    rates.gateway.push(through)
  }
  return {
    what: `requests of ${pointsPerRequest.toLocaleString('en')} points, ${clients} clients, each waits until applied`,
    unit: 'points/s',
    measured: median(rates.gateway),
    peer: { what: 'bare route', value: median(rates.floor) },
    ratio: median(rates.gateway.map((rate, round) => rate / rates.floor[round]!)),
  }
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
  return pointsPerRound / ((performance.now() - begun) / 1000)
}
