/** Search in the vector engine while a tenth of its points are remembered deletions, compared with none of them. */

import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { QdrantClient } from '@qdrant/js-client-rest'
import { pino } from 'pino'
import { openEmbeddedVectors } from '#engines/vectors/embedded.ts'
import type { PointOperation, VectorStore } from '#engines/vectors/port.ts'
import { openQdrantVectors } from '#engines/vectors/qdrant.ts'
import { type BenchRow, median, quantile } from './bench.ts'
import { createPointSource } from './points.ts'

const points = 10_000
const deletions = points / 10
const pointsPerCall = 250
const rounds = 9
const requests = 300
const collections = ['bench_deletions_without', 'bench_deletions_with'] as const
const [without, having] = collections

/** On Qdrant where QDRANT_URL names one, else on the embedded engine. */
export async function searchDeletions(report: (text: string) => void): Promise<BenchRow> {
  const url = process.env.QDRANT_URL
  const log = pino({ level: 'error' }, pino.destination(2))
  const directory = mkdtempSync(join(tmpdir(), 'fl-bench-'))
  if (url) await removeCollections(url)
  const store = url
    ? await openQdrantVectors({ url, collections, log })
    : await openEmbeddedVectors({ directory, collections, log })
  try {
    await fill(store)
    await settle(store)
    return await compare(store, report)
  } finally {
    await store.close()
    rmSync(directory, { recursive: true, force: true })
    if (url) await removeCollections(url)
  }
}

/** The same points in both; in one of them others were written and deleted again, spread over the whole time. */
async function fill(store: VectorStore): Promise<void> {
  const source = createPointSource(5)
  let offset = 0
  const upsert = (id: string): PointOperation => {
    const { vector, payload } = source.point(id)
    const position = { epoch: 1, offset: offset++ }
    return {
      kind: 'upsert',
      id,
      position,
      vector: Float32Array.from(vector),
      payload: payload as Record<string, string>,
    }
  }
  for (let from = 0; from < points; from += pointsPerCall) {
    const kept = Array.from({ length: pointsPerCall }, (_, i) => upsert(`point-${from + i}`))
    const gone = kept.slice(0, (pointsPerCall * deletions) / points).map((_, i) => upsert(`gone-${from + i}`))
    await store.apply(without, kept)
    await store.apply(having, [...kept, ...gone])
    await store.apply(
      having,
      gone.map(({ id }) => ({ kind: 'delete', id, position: { epoch: 1, offset: offset++ } })),
    )
  }
}

async function settle(store: VectorStore): Promise<void> {
  for (let i = 0; i < 180; i++) {
    const stats = await store.stats()
    if (stats.every((one) => one.status === 'ready' && one.indexedShare > 0.95)) return
    await new Promise((resolve) => setTimeout(resolve, 1_000))
  }
}

async function compare(store: VectorStore, report: (text: string) => void): Promise<BenchRow> {
  const source = createPointSource(98)
  const queries = Array.from({ length: requests }, () => Float32Array.from(source.vector()))
  const found = { without: [] as number[], having: [] as number[] }
  for (let round = 0; round <= rounds; round++) {
    const times = { without: [] as number[], having: [] as number[] }
    for (const [i, vector] of queries.entries()) {
      const search = {
        without: () => store.search(without, { vector, limit: 10 }),
        having: () => store.search(having, { vector, limit: 10 }),
      }
      // In turn, so that what else the machine does meets both, and neither is always the first.
      const order = i % 2 === 0 ? (['without', 'having'] as const) : (['having', 'without'] as const)
      for (const which of order) times[which].push(await timed(search[which]))
    }
    const p95 = { without: quantile(times.without, 0.95), having: quantile(times.having, 0.95) }
    report(
      `  deletions, round ${round}: with ${p95.having.toFixed(2)} ms, without ${p95.without.toFixed(2)} ms`,
    )
    if (round === 0) continue // The first round warms both up.
    found.without.push(p95.without)
    found.having.push(p95.having)
  }
  return {
    what: `p95 in the engine (${store.driver}), 10 % remembered deletions`,
    unit: 'ms',
    measured: median(found.having),
    peer: { what: 'without', value: median(found.without) },
    ratio: median(found.having.map((value, round) => value / found.without[round]!)),
    bar: { max: 1.1 },
  }
}

async function timed(work: () => Promise<unknown>): Promise<number> {
  const begun = performance.now()
  await work()
  return performance.now() - begun
}

async function removeCollections(url: string): Promise<void> {
  const client = new QdrantClient({ url, checkCompatibility: false })
  for (const name of collections) await client.deleteCollection(`${name}__g1`)
}
