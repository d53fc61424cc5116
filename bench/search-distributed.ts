/** Searches on distributed engines compared with a bare Qdrant client, and their processor time. */

import type { QdrantClient } from '@qdrant/js-client-rest'
import { Kafka, logLevel } from 'kafkajs'
import { createClient } from '#client/client.ts'
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
import { runLoad } from './load.ts'
import { createPointSource } from './points.ts'

const points = 20_000
const batchPoints = 500
const rounds = 5
/** One client's appends share nothing: brokers compile what they do for it during the first thousands. */
const warmUpRounds = 6
const requests = 600
/** The published p95 of a search, ms. */
const published = 23
const bareName = 'bare'
/** About the beginning of an audit. */
const recordBytes = 180

const queries = (() => {
  const source = createPointSource(99)
  return Array.from({ length: 200 }, () => source.vector())
})()

export const searchDistributedBench: Bench = {
  name: 'search-distributed',
  purpose: `p95 of a search over ${points.toLocaleString('en')} points through the gateway on three brokers and Qdrant, compared with a bare Qdrant client; processor time of a search`,
  async run(report) {
    const stage = await openDistributedStage(report)
    try {
      const client = openBareClient(stage.qdrantUrl)
      await fill(stage, client, report)
      const alone = await compare(stage, client, 1, report, warmUpRounds)
      const floor = await appendingMeanwhile(stage, client, report)
      const eight = await compare(stage, client, 8, report)
      return [
        ...rowsOf('1 client', alone, { max: 1.6 }, { max: 1.5 }),
        floor,
        ...rowsOf('8 clients', eight, { max: 2 }, { max: 1.5 }),
      ]
    } finally {
      await stage.close()
    }
  },
}

async function fill(
  stage: DistributedStage,
  client: QdrantClient,
  report: (text: string) => void,
): Promise<void> {
  await client.createCollection(bareName, {
    vectors: { size: vectorDimension, distance: 'Cosine' },
    hnsw_config: { m: hnsw.m, ef_construct: hnsw.efConstruction },
  })
  // One after the other: a connection that rests while the other side works may be closed by then.
  for (const { batch, from } of batches()) {
    const points = batch.map((point, i) => ({ ...point, id: from + i }))
    await evenIfClosed(() => client.upsert(bareName, { wait: true, points }))
  }
  // Nothing is measured yet: it repeats what a machine at load refuses.
  const agent = createClient({ vectorUrl: stage.platform.vectorUrl, apiKey: stage.key })
  for (const { batch, from } of batches()) {
    await agent.memory.remember('knowledgebase', batch)
    if ((from / batchPoints) % 10 === 9) report(`  filled ${from + batchPoints} of ${points} points`)
  }
  await agent.close()
  await warmBrokers(stage)
  await untilOptimised(client)
  report('  groups and indexes have caught up')
}

function* batches() {
  const source = createPointSource(1)
  for (let from = 0; from < points; from += batchPoints) {
    yield { from, batch: Array.from({ length: batchPoints }, (_, i) => source.point(`point-${from + i}`)) }
  }
}

async function untilOptimised(client: QdrantClient): Promise<void> {
  const { collections } = await client.getCollections()
  for (let tries = 0; tries < 300; tries++) {
    const found = await Promise.all(collections.map(({ name }) => client.getCollection(name)))
    if (found.every(({ status }) => status === 'green')) return
    await new Promise((resolve) => setTimeout(resolve, 1_000))
  }
  throw new Error('Qdrant has not optimised its collections')
}

interface Compared {
  bare: number
  gateway: number
  ratio: number
  /** Processor time of a search, in ms, with all that it sets off. */
  cost: ProcessorTimes
}

/** Bare client and gateway in turn, each when every group has caught up. */
async function compare(
  stage: DistributedStage,
  client: QdrantClient,
  clients: number,
  report: (text: string) => void,
  warmUps = 1,
): Promise<Compared> {
  const bodies = queries.map((vector) =>
    Buffer.from(JSON.stringify({ collection: 'knowledgebase', vector, limit: 10 })),
  )
  const target = {
    origin: stage.platform.vectorUrl,
    path: '/v1/vectors/search',
    headers: { authorization: `Bearer ${stage.key}` },
  }
  const found: { bare: number[]; gateway: number[]; cost: ProcessorTimes[] } = {
    bare: [],
    gateway: [],
    cost: [],
  }
  for (let round = 1 - warmUps; round <= rounds; round++) {
    // Qdrant indexes the notes of the round before.
    await untilOptimised(client)
    const bare = quantile(await searchBare(client, clients), 0.95)
    let gateway = 0
    const spent = await stage.cost(async () => {
      gateway = quantile(await runLoad(target, bodies, clients, requests), 0.95)
      await stage.caughtUp()
    })
    const cost = eachOf(spent, (seconds) => (seconds * 1_000) / requests)
    report(
      `  ${clients} client(s), round ${round}: gateway ${gateway.toFixed(1)} ms, bare ${bare.toFixed(1)} ms; ms a search: platform ${cost.platform.toFixed(1)}, Kafka ${cost.kafka.toFixed(1)}, Qdrant ${cost.qdrant.toFixed(1)}, Postgres ${cost.postgres.toFixed(1)}`,
    )
    if (round <= 0) continue
    found.bare.push(bare)
    found.gateway.push(gateway)
    found.cost.push(cost)
  }
  return {
    bare: median(found.bare),
    gateway: median(found.gateway),
    ratio: median(found.gateway.map((value, round) => value / found.bare[round]!)),
    cost: {
      platform: median(found.cost.map(({ platform }) => platform)),
      kafka: median(found.cost.map(({ kafka }) => kafka)),
      qdrant: median(found.cost.map(({ qdrant }) => qdrant)),
      postgres: median(found.cost.map(({ postgres }) => postgres)),
    },
  }
}

/** A bare client that also appends a record, acknowledged by all copies, while each search runs: a search needs no less. */
async function appendingMeanwhile(
  stage: DistributedStage,
  client: QdrantClient,
  report: (text: string) => void,
): Promise<BenchRow> {
  const kafka = new Kafka({ brokers: stage.kafka.brokers, logLevel: logLevel.NOTHING })
  const admin = kafka.admin()
  await admin.connect()
  await admin.createTopics({ topics: [{ topic: 'bare', numPartitions: 1, replicationFactor: 3 }] })
  await admin.disconnect()
  const producer = kafka.producer()
  await producer.connect()
  const messages = [{ key: 'bench', value: Buffer.alloc(recordBytes) }]
  const append = () => producer.send({ topic: 'bare', acks: -1, messages })
  const found: { bare: number; both: number }[] = []
  for (let round = 0; round <= rounds; round++) {
    const bare = quantile(await searchBare(client, 1), 0.95)
    const both = quantile(await searchBare(client, 1, append), 0.95)
    report(`  round ${round}: bare with an append ${both.toFixed(1)} ms, bare ${bare.toFixed(1)} ms`)
    if (round > 0) found.push({ bare, both })
  }
  await producer.disconnect()
  return {
    what: 'p95, 1 bare client that appends a record while each search runs',
    unit: 'ms',
    measured: median(found.map(({ both }) => both)),
    peer: { what: 'bare client', value: median(found.map(({ bare }) => bare)) },
    ratio: median(found.map(({ both, bare }) => both / bare)),
  }
}

/** The latencies of `requests` searches, in ms; of each together with the call `also`. */
async function searchBare(
  client: QdrantClient,
  clients: number,
  also: () => Promise<unknown> = async () => undefined,
): Promise<number[]> {
  const latencies: number[] = []
  let sent = 0
  const work = async () => {
    while (sent < requests) {
      const vector = queries[sent++ % queries.length]!
      const begun = performance.now()
      await Promise.all([client.query(bareName, { query: vector, limit: 10, with_payload: true }), also()])
      latencies.push(performance.now() - begun)
    }
  }
  await Promise.all(Array.from({ length: clients }, work))
  return latencies
}

function eachOf(times: ProcessorTimes, change: (value: number) => number): ProcessorTimes {
  const { platform, kafka, qdrant, postgres } = times
  return {
    platform: change(platform),
    kafka: change(kafka),
    qdrant: change(qdrant),
    postgres: change(postgres),
  }
}

function rowsOf(
  clients: string,
  { bare, gateway, ratio, cost }: Compared,
  bar: BenchRow['bar'],
  goal: BenchRow['goal'],
): BenchRow[] {
  return [
    {
      what: `p95, ${clients}`,
      unit: 'ms',
      measured: gateway,
      peer: { what: 'bare client', value: bare },
      ratio,
      ...(bar ? { bar } : {}),
      ...(goal ? { goal } : {}),
      note: `published: ${published} ms`,
    },
    ...(['platform', 'kafka', 'qdrant', 'postgres'] as const).map((name) => ({
      what: `processor time of a search, ${clients}: ${name}`,
      unit: 'ms',
      measured: cost[name],
    })),
  ]
}
