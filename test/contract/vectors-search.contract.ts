/** Promises of every vector engine about search, scroll and their order. */

import { expect, test } from 'vitest'
import { compareIds } from '#engines/vectors/score.ts'
import { eventually } from '#test/support/eventually.ts'
import { clusteredVectors, deleteOf } from '#test/support/vectors.ts'
import type { VectorsContext } from './vectors-harness.ts'

export function describeVectorSearch({ fresh, vector, upsert, dimension }: VectorsContext): void {
  test('hits come by falling cosine, between -1 and 1', async () => {
    const { store, name } = await fresh()
    await store.apply(name, [
      upsert('same', vector(2, 0)),
      upsert('near', vector(1, 1)),
      upsert('right angle', vector(0, 1)),
      upsert('opposite', vector(-3, 0)),
    ])
    const { hits, eligible } = await store.search(name, { vector: vector(5, 0), limit: 10 })
    expect(hits.map((hit) => hit.id)).toEqual(['same', 'near', 'right angle', 'opposite'])
    const expected = [1, Math.SQRT1_2, 0, -1]
    hits.forEach((hit, i) => {
      expect(hit.score).toBeCloseTo(expected[i]!, 5)
      expect(Math.abs(hit.score)).toBeLessThanOrEqual(1)
    })
    expect(eligible).toBe(4)
  })

  test('payload and vector come when asked for: by default the payload alone', async () => {
    const { store, name } = await fresh()
    await store.apply(name, [upsert('a', vector(1), { k: 1 })])
    const query = { vector: vector(1), limit: 1 }
    const plain = (await store.search(name, query)).hits[0]!
    expect(plain.payload).toEqual({ k: 1 })
    expect(plain.vector).toBeUndefined()
    const other = (await store.search(name, { ...query, withPayload: false, withVector: true })).hits[0]!
    expect(other.payload).toBeUndefined()
    expect(other.vector![0]).toBeGreaterThan(0)
    const page = await store.scroll(name, { limit: 1, withPayload: false, withVector: true })
    expect(page.points[0]!.payload).toBeUndefined()
    expect(page.points[0]!.vector!.length).toBe(dimension)
  })

  test('the score threshold keeps what reaches it', async () => {
    const { store, name } = await fresh()
    await store.apply(name, [
      upsert('same', vector(1)),
      upsert('near', vector(1, 1)),
      upsert('far', vector(0, 1)),
    ])
    const ids = async (scoreThreshold: number) =>
      (await store.search(name, { vector: vector(1), limit: 10, scoreThreshold })).hits.map((hit) => hit.id)
    expect(await ids(0.99)).toEqual(['same'])
    expect(await ids(0.7)).toEqual(['same', 'near'])
    expect(await ids(-1)).toEqual(['same', 'near', 'far'])
  })

  test('equal scores come in the order of ids, code point by code point, also where the limit cuts', async () => {
    const { store, name } = await fresh()
    const ids = ['b', 'a', 'B', '10', '9', '\uffee', '😀', 'é', 'a/1', '']
    const named = ids.map((id) => id || 'z')
    await store.apply(
      name,
      named.map((id) => upsert(id, vector(1, 2, 3))),
    )
    const inOrder = [...named].sort(compareIds)
    expect(inOrder.slice(-2)).toEqual(['\uffee', '😀'])
    for (const limit of [3, 10]) {
      const { hits } = await store.search(name, { vector: vector(1, 2, 3), limit })
      expect(hits.map((hit) => hit.id)).toEqual(inOrder.slice(0, limit))
    }
  })

  test('all eligible points are returned when there are no more than the limit', async () => {
    const { store, name } = await fresh()
    const vectors = clusteredVectors({ count: 1200, dimension, seed: 3 })
    await store.apply(
      name,
      vectors.map((each, i) => upsert(`p${i}`, each, { few: i < 150, many: true })),
    )
    const few = { must: [{ key: 'few', match: { value: true } }] }
    const found = await store.search(name, { vector: vectors[1000]!, limit: 200, filter: few })
    expect(new Set(found.hits.map((hit) => hit.id)).size).toBe(150)
    expect(found.eligible).toBeGreaterThan(0)
    await store.apply(
      name,
      vectors.slice(900).map((_, i) => deleteOf(`p${900 + i}`)),
    )
    const all = await store.search(name, { vector: vectors[1000]!, limit: 1000, withPayload: false })
    expect(all.hits.length).toBe(900)
  })

  test('recall on clustered vectors is at least 0.95, with and without a filter, once the index is made', async () => {
    const { store, name } = await fresh()
    const vectors = clusteredVectors({ count: 2600, dimension, seed: 5 })
    for (let i = 0; i < vectors.length; i += 500) {
      const part = vectors.slice(i, i + 500)
      await store.apply(
        name,
        part.map((each, j) => upsert(`p${i + j}`, each, { third: (i + j) % 3 })),
      )
    }
    await eventually(
      'the index holds the points',
      async () => {
        const stats = (await store.stats()).find((each) => each.collection === name)!
        return stats.status === 'ready' && (store.driver === 'qdrant' || stats.indexedShare > 0.9)
      },
      150_000,
    )
    const queries = clusteredVectors({ count: 2640, dimension, seed: 5 }).slice(2600)
    const third = (value: number) => ({ key: 'third', match: { value } })
    const filters = [undefined, { must: [third(1)] }, { must: [], must_not: [third(0), third(2)] }]
    for (const filter of filters) {
      const allowed = (i: number) => filter === undefined || i % 3 === 1
      let found = 0
      for (const query of queries) {
        const nearest = nearestOf(vectors, query, 10, allowed)
        const { hits } = await store.search(name, { vector: query, limit: 10, ...(filter ? { filter } : {}) })
        expect(hits.length).toBe(10)
        found += hits.filter((hit) => nearest.has(hit.id)).length
      }
      expect(found / (queries.length * 10)).toBeGreaterThanOrEqual(0.95)
    }
  }, 180_000)

  test('scrolling meets every point exactly once, whatever the page size, with and without a filter', async () => {
    const { store, name } = await fresh()
    await store.apply(
      name,
      Array.from({ length: 250 }, (_, i) => upsert(`point ${i}`, vector(1, i), { even: i % 2 === 0 })),
    )
    for (const limit of [1, 7, 100, 250, 1000]) {
      expect((await scrollAll(limit)).length).toBe(250)
    }
    const even = await scrollAll(20, { must: [{ key: 'even', match: { value: true } }] })
    expect(even.length).toBe(125)
    expect(even.every((id) => Number(id.slice(6)) % 2 === 0)).toBe(true)

    async function scrollAll(
      limit: number,
      filter?: Parameters<typeof store.scroll>[1]['filter'],
    ): Promise<string[]> {
      const ids: string[] = []
      let next: string | null | undefined
      do {
        const page = await store.scroll(name, {
          limit,
          ...(next ? { offset: next } : {}),
          ...(filter ? { filter } : {}),
        })
        expect(page.points.length).toBeLessThanOrEqual(limit)
        if (next) expect(page.points[0]!.id).toBe(next)
        ids.push(...page.points.map((point) => point.id))
        next = page.next
      } while (next !== null)
      expect(new Set(ids).size).toBe(ids.length)
      return ids
    }
  })

  test('a scroll ends by bytes as well, with and without a filter, and loses and repeats nothing', async () => {
    const { store, name } = await fresh()
    const points = Array.from({ length: 90 }, (_, i) =>
      upsert(`point ${i}`, vector(1, i), { some: i % 2 === 0, text: 'x'.repeat(i % 3 === 0 ? 20_000 : 10) }),
    )
    await store.apply(name, points)
    const some = { must: [{ key: 'some', match: { value: true } }] }
    for (const filter of [undefined, some]) {
      for (const [bytesMax, pointsMax] of [
        [1, 1],
        [50_000, 90],
      ] as const) {
        const ids: string[] = []
        let pages = 0
        for (let next: string | null | undefined; next !== null; pages++) {
          const offset = next === undefined ? {} : { offset: next }
          const query = { limit: 1000, bytesMax, ...offset, ...(filter ? { filter } : {}) }
          const page = await store.scroll(name, query)
          const bytes = page.points.reduce((sum, { payload }) => sum + JSON.stringify(payload).length, 0)
          expect(page.points.length <= pointsMax && (bytes <= bytesMax || page.points.length === 1)).toBe(
            true,
          )
          if (next) expect(page.points[0]!.id).toBe(next)
          ids.push(...page.points.map(({ id }) => id))
          next = page.next
        }
        expect(pages).toBeGreaterThan(5)
        expect([ids.length, new Set(ids).size]).toEqual(filter ? [45, 45] : [90, 90])
      }
    }
  })

  test('a search fills hits up to its bytes, in its order, and `get` has the others', async () => {
    const { store, name } = await fresh()
    const text = 'x'.repeat(10_000)
    await store.apply(
      name,
      Array.from({ length: 100 }, (_, i) => upsert(`point ${i}`, vector(1, i / 100), { i, text })),
    )
    for (const limit of [10, 100]) {
      const query = { vector: vector(1), limit }
      const whole = await store.search(name, query)
      expect(whole.filled).toBe(limit)
      const { hits, filled } = await store.search(name, { ...query, bytesMax: 50_000, withVector: true })
      expect(hits.map(({ id, score }) => [id, score])).toEqual(whole.hits.map(({ id, score }) => [id, score]))
      if (limit === 100) expect(filled).toBeLessThan(limit)
      expect(hits.map((hit) => [hit.payload !== undefined, hit.vector !== undefined])).toEqual(
        hits.map((_, n) => [n < filled, n < filled]),
      )
      const rest = await store.get(
        name,
        hits.slice(filled).map(({ id }) => id),
      )
      expect(hits.slice(0, filled).map(({ payload }) => payload)).toEqual(
        whole.hits.slice(0, filled).map(({ payload }) => payload),
      )
      expect(rest.map(({ payload }) => payload)).toEqual(
        whole.hits.slice(filled).map(({ payload }) => payload),
      )
      // Without payload and vector there is nothing to fill.
      expect((await store.search(name, { ...query, bytesMax: 1, withPayload: false })).filled).toBe(limit)
    }
  })

  test('an empty collection answers empty', async () => {
    const { store, name } = await fresh()
    expect(await store.search(name, { vector: vector(1), limit: 5 })).toEqual({
      hits: [],
      eligible: 0,
      filled: 0,
    })
    expect(await store.scroll(name, { limit: 5 })).toEqual({ points: [], next: null })
    expect(await store.count(name)).toBe(0)
  })

  test('searches go on while points are written', async () => {
    const { store, name } = await fresh()
    const vectors = clusteredVectors({ count: 900, dimension, seed: 9 })
    await store.apply(
      name,
      vectors.slice(0, 100).map((each, i) => upsert(`p${i}`, each)),
    )
    let writing = true
    const writes = (async () => {
      for (let i = 100; i < 900; i += 200) {
        await store.apply(
          name,
          vectors.slice(i, i + 200).map((each, j) => upsert(`p${i + j}`, each)),
        )
      }
      writing = false
    })()
    while (writing) {
      const { hits } = await store.search(name, { vector: vectors[0]!, limit: 5 })
      expect(hits[0]!.id).toBe('p0')
      expect(hits.length).toBe(5)
    }
    await writes
  })
}

function nearestOf(
  vectors: Float32Array[],
  query: Float32Array,
  limit: number,
  allowed: (i: number) => boolean,
): Set<string> {
  const cosine = (each: Float32Array) => {
    let product = 0
    let square = 0
    for (let i = 0; i < each.length; i++) {
      product += each[i]! * query[i]!
      square += each[i]! * each[i]!
    }
    return product / Math.sqrt(square)
  }
  const scored = vectors.map((each, i) => ({ id: `p${i}`, score: allowed(i) ? cosine(each) : -2 }))
  return new Set(
    scored
      .sort((a, b) => b.score - a.score)
      .slice(0, limit)
      .map((each) => each.id),
  )
}
