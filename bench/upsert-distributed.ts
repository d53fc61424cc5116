/** Upserts on distributed engines compared with a bare Qdrant client: points a second, and the processor time of a point. */

import { v5 } from 'uuid'
import { hnsw, vectorDimension } from '#engines/vectors/collections.ts'
import { type Bench, type BenchRow, median, quantile } from './bench.ts'
import {
  type DistributedStage,
  evenIfClosed,
  openBareClient,
  openDistributedStage,
  type ProcessorTimes,
  warmBrokers,
} from './distributed-stage.ts'
import { openCaller } from './load.ts'
import { createPointSource } from './points.ts'

const pointsPerRound = 6_000
const clients = 4
const rounds = 3
/** Requests of another size make brokers compile again. */
const warmUpRounds = 3
const namespace = '6ba7b810-9dad-11d1-80b4-00c04fd430c8'

type Point = ReturnType<ReturnType<typeof createPointSource>['point']>

export const upsertDistributedBench: Bench = {
  name: 'upsert-distributed',
  purpose:
    'points a second, applied, and the processor time of a point: three brokers, Postgres and Qdrant, compared with a bare Qdrant client',
  async run(report) {
    const alone = await onStage(['relational-writer'], report, async (stage) => [
      ...rowsOf(stage.name, await compare(stage, 500, report), { min: 0.35 }, { min: 0.5 }),
      ...rowsOf(stage.name, await compare(stage, 100, report)),
    ])
    const mirrored = await onStage([], report, async (stage) => [
      ...rowsOf(stage.name, await compare(stage, 500, report), { min: 0.5 }, { min: 0.6 }),
      ...rowsOf(stage.name, await compare(stage, 100, report), { min: 0.4 }, { min: 0.5 }),
    ])
    return [...alone, ...mirrored]
  },
}

type Stage = DistributedStage & { name: string }

async function onStage<T>(
  without: string[],
  report: (text: string) => void,
  work: (stage: Stage) => Promise<T>,
): Promise<T> {
  const stage = await openDistributedStage(report, without)
  try {
    await warmBrokers(stage)
    report('  the brokers are warm')
    const name = without.length > 0 ? 'without the relational-writer' : 'with the relational-writer'
    return await work({ ...stage, name })
  } finally {
    await stage.close()
  }
}

interface Compared {
  pointsPerRequest: number
  bare: { rate: number; p95: number; clientMs: number; qdrantMs: number }
  platform: { rate: number; p95: number; ratio: number; ms: ProcessorTimes }
}

/** Bare client and platform in turn, with requests of one size. */
async function compare(
  stage: Stage,
  pointsPerRequest: number,
  report: (text: string) => void,
): Promise<Compared> {
  const source = createPointSource(3)
  const requests = Array.from({ length: pointsPerRound / pointsPerRequest }, (_, n) =>
    Array.from({ length: pointsPerRequest }, (_, i) => source.point(`point-${n}-${i}`)),
  )
  const bodies = requests.map((points) =>
    Buffer.from(JSON.stringify({ collection: 'knowledgebase', points })),
  )
  const bare = await createBare(stage.qdrantUrl, `bare-${pointsPerRequest}`)
  const found: { bare: Bare[]; platform: Through[] } = { bare: [], platform: [] }
  for (let round = 1 - warmUpRounds; round <= rounds; round++) {
    const direct = await upsertBare(stage, bare, requests)
    const through = await upsertThrough(stage, bodies)
    report(
      `  ${stage.name}, requests of ${pointsPerRequest}, round ${round}: ${Math.round(through.rate)} points/s, bare ${Math.round(direct.rate)}; p95 ${through.p95.toFixed(0)} ms, bare ${direct.p95.toFixed(0)}; ms a point: platform ${through.ms.platform.toFixed(2)}, Kafka ${through.ms.kafka.toFixed(2)}, Postgres ${through.ms.postgres.toFixed(2)}, Qdrant ${through.ms.qdrant.toFixed(2)}; bare client ${direct.clientMs.toFixed(2)}, its Qdrant ${direct.qdrantMs.toFixed(2)}`,
    )
    if (round <= 0) continue
    found.bare.push(direct)
    found.platform.push(through)
  }
  const medianOf = <T>(samples: T[], value: (sample: T) => number) => median(samples.map(value))
  return {
    pointsPerRequest,
    bare: {
      rate: medianOf(found.bare, ({ rate }) => rate),
      p95: medianOf(found.bare, ({ p95 }) => p95),
      clientMs: medianOf(found.bare, ({ clientMs }) => clientMs),
      qdrantMs: medianOf(found.bare, ({ qdrantMs }) => qdrantMs),
    },
    platform: {
      rate: medianOf(found.platform, ({ rate }) => rate),
      p95: medianOf(found.platform, ({ p95 }) => p95),
      ratio: median(found.platform.map(({ rate }, round) => rate / found.bare[round]!.rate)),
      ms: {
        platform: medianOf(found.platform, ({ ms }) => ms.platform),
        kafka: medianOf(found.platform, ({ ms }) => ms.kafka),
        qdrant: medianOf(found.platform, ({ ms }) => ms.qdrant),
        postgres: medianOf(found.platform, ({ ms }) => ms.postgres),
      },
    },
  }
}

interface Bare {
  rate: number
  /** Milliseconds of a request. */
  p95: number
  clientMs: number
  qdrantMs: number
}

interface Through {
  rate: number
  p95: number
  ms: ProcessorTimes
}

/** The client runs in this process, which does nothing else meanwhile. */
async function upsertBare(
  stage: Stage,
  upsert: (points: Point[]) => Promise<unknown>,
  requests: readonly Point[][],
): Promise<Bare> {
  const own = process.cpuUsage()
  const begun = performance.now()
  let seconds = 0
  let latencies: number[] = []
  const { qdrant } = await stage.cost(async () => {
    latencies = await inTurn(requests, upsert)
    seconds = (performance.now() - begun) / 1_000
  })
  const { user, system } = process.cpuUsage(own)
  return {
    rate: pointsPerRound / seconds,
    p95: quantile(latencies, 0.95),
    clientMs: (user + system) / 1_000 / pointsPerRound,
    qdrantMs: (qdrant * 1_000) / pointsPerRound,
  }
}

/** The time until every request was applied; the processor time until every group has caught up. */
async function upsertThrough(stage: Stage, bodies: readonly Buffer[]): Promise<Through> {
  const callers = Array.from({ length: clients }, () => openCaller(stage.platform.vectorUrl))
  const headers = { authorization: `Bearer ${stage.key}` }
  const begun = performance.now()
  let seconds = 0
  let latencies: number[] = []
  const spent = await stage.cost(async () => {
    const free = [...callers]
    latencies = await inTurn(bodies, async (body) => {
      const caller = free.pop()!
      await caller.post('/v1/vectors/upsert?wait=true', body, headers)
      free.push(caller)
    })
    seconds = (performance.now() - begun) / 1_000
    await stage.caughtUp()
  })
  for (const caller of callers) await caller.close()
  const perPoint = (used: number) => (used * 1_000) / pointsPerRound
  return {
    rate: pointsPerRound / seconds,
    p95: quantile(latencies, 0.95),
    ms: {
      platform: perPoint(spent.platform),
      kafka: perPoint(spent.kafka),
      qdrant: perPoint(spent.qdrant),
      postgres: perPoint(spent.postgres),
    },
  }
}

/** The latencies, in ms. */
async function inTurn<T>(all: readonly T[], work: (one: T) => Promise<unknown>): Promise<number[]> {
  const latencies: number[] = []
  let next = 0
  const client = async () => {
    while (next < all.length) {
      const begun = performance.now()
      await work(all[next++]!)
      latencies.push(performance.now() - begun)
    }
  }
  await Promise.all(Array.from({ length: clients }, client))
  return latencies
}

/** A collection with the same index, and the official client's upsert into it. */
async function createBare(url: string, name: string): Promise<(points: Point[]) => Promise<unknown>> {
  const client = openBareClient(url)
  await client.createCollection(name, {
    vectors: { size: vectorDimension, distance: 'Cosine' },
    hnsw_config: { m: hnsw.m, ef_construct: hnsw.efConstruction },
  })
  return (points) =>
    evenIfClosed(() =>
      client.upsert(name, {
        wait: true,
        points: points.map((point) => ({ ...point, id: v5(point.id, namespace) })),
      }),
    )
}

function rowsOf(
  stage: string,
  { pointsPerRequest, bare, platform }: Compared,
  bar?: BenchRow['bar'],
  goal?: BenchRow['goal'],
): BenchRow[] {
  const what = `requests of ${pointsPerRequest}, ${stage}`
  const floor = bare.clientMs + bare.qdrantMs
  const peer = { what: 'bare client and its Qdrant', value: floor }
  const judged = stage.startsWith('without')
  return [
    {
      what: `${what}: applied`,
      unit: 'points/s',
      measured: platform.rate,
      peer: { what: 'bare client', value: bare.rate },
      ratio: platform.ratio,
      ...(bar ? { bar } : {}),
      ...(goal ? { goal } : {}),
    },
    {
      what: `${what}: p95, each waits until applied`,
      unit: 'ms',
      measured: platform.p95,
      ...(pointsPerRequest === 100 && !judged ? { bar: { max: 500 } } : {}),
      note: `bare client: ${bare.p95.toFixed(0)} ms`,
    },
    {
      what: `${what}: the platform's processor time`,
      unit: 'ms/point',
      measured: platform.ms.platform,
      peer,
      ...(judged ? { bar: { max: 1 }, goal: { max: 0.7 } } : {}),
    },
    {
      what: `${what}: Kafka's processor time, three brokers`,
      unit: 'ms/point',
      measured: platform.ms.kafka,
      peer,
      ...(judged ? { bar: { max: 0.7 }, goal: { max: 0.35 } } : {}),
    },
    {
      what: `${what}: Qdrant's and Postgres' processor time`,
      unit: 'ms/point',
      measured: platform.ms.qdrant + platform.ms.postgres,
      peer,
    },
  ]
}
