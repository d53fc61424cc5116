/**
 * Searches with a filter in 100,000 points: a range of a key that has an index. On the embedded engine compared with searches
 * without a filter; on Qdrant, where QDRANT_URL names one, with its own client and a field of its own index.
 */

import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pino } from 'pino'
import { openEmbeddedVectors } from '#engines/vectors/embedded.ts'
import type { Filter, Payload, PointOperation, VectorStore } from '#engines/vectors/port.ts'
import { openQdrantVectors } from '#engines/vectors/qdrant.ts'
import { type Bench, type BenchRow, median, quantile } from './bench.ts'
import { openBareClient } from './distributed-stage.ts'
import { createPointSource } from './points.ts'

const points = 100_000
const pointsPerCall = 250
const rounds = 9
const requests = 100
const limit = 10
const collection = 'bench_filters'
/** Three points of ten. */
const from = points * 0.7
const filter: Filter = { must: [{ key: 'n', range: { gte: from } }] }

export const filtersBench: Bench = {
  name: 'filters',
  purpose:
    'p95 of searches with a range of an indexed key over 100,000 points: on the embedded engine compared with no filter, on Qdrant (QDRANT_URL) with its own client',
  async run(report) {
    const rows = await embeddedRows(report)
    const url = process.env.QDRANT_URL
    return url ? [...rows, await qdrantRow(url, report)] : rows
  },
}

async function embeddedRows(report: (text: string) => void): Promise<BenchRow[]> {
  const log = pino({ level: 'error' }, pino.destination(2))
  const directory = mkdtempSync(join(tmpdir(), 'fl-bench-'))
  const store = await openEmbeddedVectors({ directory, collections: [collection], log })
  try {
    await fill(store, report)
    const begun = performance.now()
    await store.count(collection, { must: [{ key: 'n', range: { gte: from - 1 } }] })
    const firstMs = performance.now() - begun
    const row = await compare(
      'p95, a range of a key (embedded)',
      'no filter',
      (vector) => store.search(collection, { vector, limit, filter }),
      (vector) => store.search(collection, { vector, limit }),
      report,
    )
    return [
      row,
      { what: 'the first search with a new filter reads all payloads', unit: 'ms', measured: firstMs },
    ]
  } finally {
    await store.close()
    rmSync(directory, { recursive: true, force: true })
  }
}

async function qdrantRow(url: string, report: (text: string) => void): Promise<BenchRow> {
  const log = pino({ level: 'error' }, pino.destination(2))
  const client = openBareClient(url)
  await client.deleteCollection(`${collection}__g1`)
  const store = await openQdrantVectors({ url, collections: [collection], log })
  try {
    await fill(store, report)
    await store.indexPayload(collection, 'n', 'number')
    // The position of a point in the log is its number, as a field that Qdrant knows by itself.
    await client.createPayloadIndex(`${collection}__g1`, {
      field_name: 'offset',
      field_schema: 'integer',
      wait: true,
    })
    await settle(store)
    const native = { must: [{ key: 'offset', range: { gte: from } }] }
    return await compare(
      'p95, a range of a key (Qdrant)',
      "Qdrant's own client",
      (vector) => store.search(collection, { vector, limit, filter }),
      (vector) =>
        client.query(collection, {
          query: Array.from(vector),
          limit,
          filter: native,
          params: { hnsw_ef: 128 },
          with_payload: true,
        }),
      report,
    )
  } finally {
    await store.close()
    await client.deleteCollection(`${collection}__g1`)
  }
}

async function fill(store: VectorStore, report: (text: string) => void): Promise<void> {
  const source = createPointSource(5)
  for (let first = 0; first < points; first += pointsPerCall) {
    const operations = Array.from({ length: pointsPerCall }, (_, i): PointOperation => {
      const n = first + i
      const { vector, payload } = source.point(`point-${n}`)
      return {
        kind: 'upsert',
        id: `point-${n}`,
        position: { epoch: 1, offset: n },
        vector: Float32Array.from(vector),
        payload: { ...(payload as Payload), n },
      }
    })
    await store.apply(collection, operations)
    if (first % 20_000 === 0) report(`  ${store.driver}: ${first} points`)
  }
  await settle(store)
  report(`  ${store.driver}: ${points} points, indexed`)
}

async function settle(store: VectorStore): Promise<void> {
  for (let i = 0; i < 300; i++) {
    const stats = await store.stats()
    if (stats.every((one) => one.status === 'ready' && one.indexedShare > 0.95)) return
    await new Promise((resolve) => setTimeout(resolve, 1_000))
  }
}

type Search = (vector: Float32Array) => Promise<unknown>

async function compare(
  what: string,
  peer: string,
  ours: Search,
  theirs: Search,
  report: (text: string) => void,
): Promise<BenchRow> {
  const source = createPointSource(98)
  const queries = Array.from({ length: requests }, () => Float32Array.from(source.vector()))
  const found = { ours: [] as number[], theirs: [] as number[] }
  for (let round = 0; round <= rounds; round++) {
    const times = { ours: [] as number[], theirs: [] as number[] }
    for (const [i, vector] of queries.entries()) {
      // In turn, so that what else the machine does meets both, and neither is always the first.
      const order = i % 2 === 0 ? (['theirs', 'ours'] as const) : (['ours', 'theirs'] as const)
      for (const which of order) {
        const begun = performance.now()
        await (which === 'ours' ? ours : theirs)(vector)
        times[which].push(performance.now() - begun)
      }
    }
    const p95 = { ours: quantile(times.ours, 0.95), theirs: quantile(times.theirs, 0.95) }
    report(`  ${what}, round ${round}: ${p95.ours.toFixed(2)} ms, ${peer} ${p95.theirs.toFixed(2)} ms`)
    if (round === 0) continue // The first round warms both up.
    found.ours.push(p95.ours)
    found.theirs.push(p95.theirs)
  }
  return {
    what,
    unit: 'ms',
    measured: median(found.ours),
    peer: { what: peer, value: median(found.theirs) },
    ratio: median(found.ours.map((value, round) => value / found.theirs[round]!)),
    bar: { max: 1.3 },
  }
}
