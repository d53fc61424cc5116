/** Promises of every vector engine about scores and ties, once an index of its own form holds the points. */

import { expect, test } from 'vitest'
import type { VectorStore } from '#engines/vectors/port.ts'
import { compareIds } from '#engines/vectors/score.ts'
import { eventually } from '#test/support/eventually.ts'
import { clusteredVectors } from '#test/support/vectors.ts'
import type { VectorsContext } from './vectors-harness.ts'

/** Points of each vector. */
const copies = 3
const count = 1_500
/** Many: the share that is found is that of the index, and not of a few questions. */
const asked = 300

export function describeVectorScores({ fresh, upsert, dimension }: VectorsContext): void {
  test('scores are exact to 1e-5, and equal ones come by id, over thousands of clustered points', async () => {
    const { store, name, place } = await fresh()
    await store.ping(60_000)
    await place.indexSmall?.()
    const all = clusteredVectors({ count: count + asked, dimension, seed: 11 })
    const vectors = all.slice(0, count)
    for (let copy = 0; copy < copies; copy++) {
      for (let from = 0; from < count; from += 500) {
        const part = vectors.slice(from, from + 500)
        // The last copy has the first id.
        const idOf = (n: number) => `p${from + n}/${copies - copy}`
        await store.apply(
          name,
          part.map((vector, n) => upsert(idOf(n), vector)),
        )
      }
    }
    await untilIndexed(store, name)
    let found = 0
    const queries = all.slice(count)
    for (const query of queries) {
      const exact = vectors.map((vector) => cosineOf(vector, query))
      const { hits } = await store.search(name, { vector: query, limit: 10 })
      expect(hits.length).toBe(10)
      for (const { id, score } of hits) {
        expect(Math.abs(score - exact[vectorOfId(id)]!)).toBeLessThan(1e-5)
      }
      const inOrder = [...hits].sort((a, b) => b.score - a.score || compareIds(a.id, b.id))
      expect(hits.map(({ id }) => id)).toEqual(inOrder.map(({ id }) => id))
      const tenth = exact.flatMap((score) => Array(copies).fill(score)).sort((a, b) => b - a)[9]
      found += hits.filter(({ score }) => score > tenth - 1e-5).length
    }
    expect(found / (queries.length * 10)).toBeGreaterThanOrEqual(0.95)
  }, 180_000)
}

async function untilIndexed(store: VectorStore, name: string): Promise<void> {
  const indexed = async () => {
    const { status, indexedShare } = (await store.stats()).find(({ collection }) => collection === name)!
    return status === 'ready' && (store.driver === 'qdrant' || indexedShare > 0.9)
  }
  await eventually('the index holds the points', indexed, 150_000)
}

function vectorOfId(id: string): number {
  return Number(id.slice(1).split('/')[0])
}

function cosineOf(a: Float32Array, b: Float32Array): number {
  const dot = (x: Float32Array, y: Float32Array) => x.reduce((sum, value, n) => sum + value * y[n]!, 0)
  return dot(a, b) / Math.sqrt(dot(a, a) * dot(b, b))
}
