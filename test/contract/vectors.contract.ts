/** Promises of every vector engine: writing, reading, searching. Filters and generations have suites of their own. */

import { afterEach, describe, expect, test } from 'vitest'
import type { VectorStore } from '#engines/vectors/port.ts'
import { deleteOf, upsertOf, vectorOf } from '#test/support/vectors.ts'
import { describeVectorCollections } from './vectors-collections.contract.ts'
import { describeVectorConditions } from './vectors-conditions.contract.ts'
import { describeVectorExpiry } from './vectors-expiry.contract.ts'
import { describeVectorFilters } from './vectors-filters.contract.ts'
import { describeVectorGenerations } from './vectors-generations.contract.ts'
import type { VectorsContext, VectorsHarness } from './vectors-harness.ts'
import { describeVectorsHeld } from './vectors-held.contract.ts'
import { describeVectorOrder } from './vectors-order.contract.ts'
import { describeVectorPositions } from './vectors-positions.contract.ts'
import { describeVectorScores } from './vectors-scores.contract.ts'
import { describeVectorSearch } from './vectors-search.contract.ts'

export function describeVectors(driverName: string, harness: VectorsHarness): void {
  const opened: VectorStore[] = []
  afterEach(async () => {
    for (const store of opened.splice(0)) await store.close()
  })
  const context: VectorsContext = {
    dimension: harness.dimension,
    async fresh(former) {
      const place = await harness.place()
      if (former) await place.fillAsFormerly(former)
      const open = async () => {
        const store = await place.open()
        opened.push(store)
        return store
      }
      const [name, other] = place.collections
      return { store: await open(), name, other, place: { ...place, open } }
    },
    vector: (...head) => vectorOf(harness.dimension, ...head),
    upsert: upsertOf,
  }
  describe(`vectors: ${driverName}`, () => {
    describePoints(context)
    describeVectorSearch(context)
    describeVectorScores(context)
    describeVectorFilters(context)
    describeVectorConditions(context)
    describeVectorOrder(context)
    describeVectorGenerations(context)
    describeVectorCollections(context)
    describeVectorPositions(context)
    describeVectorExpiry(context)
    describeVectorsHeld(context)
  })
}

function describePoints({ fresh, vector, upsert, dimension }: VectorsContext): void {
  test('a point comes back as it was given, its vector up to a positive factor', async () => {
    const { store, name } = await fresh()
    const payload = {
      title: 'One',
      tags: ['a', 'b'],
      nested: { deep: { n: 1.5 } },
      none: null,
      yes: true,
      list: [],
    }
    await store.apply(name, [upsert('STIDX001-1', vector(3, 4), payload)])
    const [point] = await store.get(name, ['STIDX001-1'])
    expect(point!.id).toBe('STIDX001-1')
    expect(point!.payload).toEqual(payload)
    expect(point!.vector[1]! / point!.vector[0]!).toBeCloseTo(4 / 3, 5)
    expect(point!.vector[0]).toBeGreaterThan(0)
    expect(point!.vector.length).toBe(dimension)
  })

  test('get answers those that exist, in the order asked for', async () => {
    const { store, name } = await fresh()
    await store.apply(name, [upsert('a', vector(1)), upsert('b', vector(0, 1)), upsert('c', vector(0, 0, 1))])
    expect((await store.get(name, ['c', 'absent', 'a'])).map((point) => point.id)).toEqual(['c', 'a'])
    expect(await store.get(name, ['absent'])).toEqual([])
  })

  test('an overwrite leaves one point with the new vector and the new payload', async () => {
    const { store, name } = await fresh()
    await store.apply(name, [upsert('a', vector(1), { old: 1, kept: 'no' })])
    await store.apply(name, [upsert('a', vector(0, 1), { fresh: 2 })])
    expect(await store.count(name)).toBe(1)
    expect((await store.get(name, ['a']))[0]!.payload).toEqual({ fresh: 2 })
    const { hits } = await store.search(name, { vector: vector(0, 1), limit: 3 })
    expect(hits.map((hit) => hit.id)).toEqual(['a'])
    expect(hits[0]!.score).toBeCloseTo(1, 5)
  })

  test('a deleted point is gone everywhere, and deleting an absent point does nothing', async () => {
    const { store, name } = await fresh()
    await store.apply(name, [upsert('a', vector(1), { k: 1 }), upsert('b', vector(1, 1), { k: 1 })])
    await store.apply(name, [deleteOf('a'), deleteOf('never')])
    expect(await store.count(name)).toBe(1)
    expect(await store.count(name, { must: [{ key: 'k', match: { value: 1 } }] })).toBe(1)
    expect(await store.get(name, ['a'])).toEqual([])
    expect((await store.search(name, { vector: vector(1), limit: 5 })).hits.map((hit) => hit.id)).toEqual([
      'b',
    ])
    expect((await store.scroll(name, { limit: 5 })).points.map((point) => point.id)).toEqual(['b'])
  })

  test('within one call the last operation on an id wins, deletes among them', async () => {
    const { store, name } = await fresh()
    await store.apply(name, [
      upsert('twice', vector(1), { n: 1 }),
      upsert('gone', vector(1)),
      deleteOf('back'),
      upsert('twice', vector(0, 1), { n: 2 }),
      deleteOf('gone'),
      upsert('back', vector(0, 0, 1), { n: 3 }),
    ])
    const points = await store.get(name, ['twice', 'gone', 'back'])
    expect(points.map((point) => [point.id, point.payload.n])).toEqual([
      ['twice', 2],
      ['back', 3],
    ])
    await store.apply(name, [
      deleteOf('twice'),
      upsert('twice', vector(1), { n: 4 }),
      upsert('back', vector(1), { n: 5 }),
      deleteOf('back'),
    ])
    expect((await store.get(name, ['twice', 'back'])).map((point) => point.payload.n)).toEqual([4])
  })

  test('an empty call and a large one with several batches work', async () => {
    const { store, name } = await fresh()
    await store.apply(name, [])
    const many = Array.from({ length: 1300 }, (_, i) => upsert(`id-${i}`, vector(1, i + 1), { i }))
    await store.apply(name, many)
    expect(await store.count(name)).toBe(1300)
    await store.apply(
      name,
      many.slice(0, 1100).map(({ id }) => deleteOf(id)),
    )
    expect(await store.count(name)).toBe(200)
  })

  test('collections are apart', async () => {
    const { store, name, other } = await fresh()
    await store.apply(name, [upsert('a', vector(1), { in: 'first' })])
    await store.apply(other, [upsert('a', vector(0, 1), { in: 'second' }), upsert('b', vector(1))])
    expect((await store.get(name, ['a']))[0]!.payload.in).toBe('first')
    expect(await store.count(name)).toBe(1)
    expect(await store.count(other)).toBe(2)
  })

  test('any well-formed id comes back as it was given', async () => {
    const { store, name } = await fresh()
    const ids = [
      '\'quoted\' "twice"',
      'a/b:c\\d',
      'line\nbreak\ttab',
      ' ',
      '123',
      '-1',
      '1.5',
      '😀',
      '\u{10ffff}',
      'é',
      'e\u0301',
    ]
    ids.push(
      'x'.repeat(512),
      '😀'.repeat(512),
      '__proto__',
      'constructor',
      "x' OR 1=1 --",
      '%_*?',
      '0f8fad5b-d9cb-469f-a165-70867728950e',
    )
    await store.apply(
      name,
      ids.map((id, i) => upsert(id, vector(1, i), { i })),
    )
    expect((await store.get(name, ids)).map((point) => [point.id, point.payload.i])).toEqual(
      ids.map((id, i) => [id, i]),
    )
    const scrolled = await store.scroll(name, { limit: 100 })
    expect(scrolled.points.map((point) => point.id).sort()).toEqual([...ids].sort())
    await store.apply(
      name,
      ids.map((id) => deleteOf(id)),
    )
    expect(await store.count(name)).toBe(0)
  })

  test('any payload comes back key by key', async () => {
    const { store, name } = await fresh()
    const text = `{"__proto__":{"polluted":true},"constructor":"c","":"empty key","a.b":1,"id":"own id","vector":[1],
      "kv":["x"],"payload":{"a":1},"_id":"mine","nul":"a\\u0000b","emoji":"😀","quote":"\\"'","big":9007199254740991,
      "small":1e-300,"float":0.1,"deep":[[1,[2,{"x":[]}]],{}]}`
    const payload = JSON.parse(text) as Record<string, never>
    await store.apply(name, [upsert('a', vector(1), payload)])
    const [point] = await store.get(name, ['a'])
    expect(JSON.parse(JSON.stringify(point!.payload))).toEqual(JSON.parse(text))
    expect(Object.keys(point!.payload).sort()).toEqual(Object.keys(payload).sort())
    expect(Object.hasOwn(point!.payload, '__proto__')).toBe(true)
    const { hits } = await store.search(name, { vector: vector(1), limit: 1 })
    expect(Object.keys(hits[0]!.payload!).sort()).toEqual(Object.keys(payload).sort())
  })

  test('an unstorable point is refused for good, and nothing of that call is applied', async () => {
    const { store, name } = await fresh()
    const faulty = [vector(Number.NaN), vector(Infinity), vector(), new Float32Array(dimension + 1).fill(1)]
    for (const bad of faulty) {
      const call = store.apply(name, [upsert('good', vector(1)), upsert('bad', bad)])
      await expect(call).rejects.toMatchObject({ code: 'validation_failed' })
    }
    await expect(store.apply(name, [upsert('\ud800', vector(1))])).rejects.toMatchObject({
      code: 'validation_failed',
    })
    await expect(store.count('nowhere')).rejects.toMatchObject({ code: 'collection_not_found' })
    expect(await store.count(name)).toBe(0)
  })

  test('everything is there after closing and opening again; closing twice works', async () => {
    const { store, name, place } = await fresh()
    const many = Array.from({ length: 300 }, (_, i) =>
      upsert(`id-${i}`, vector(Math.cos(i / 100), Math.sin(i / 100)), { i, even: i % 2 === 0 }),
    )
    await store.apply(name, many)
    await store.apply(name, [deleteOf('id-7')])
    await store.close()
    await store.close()
    await expect(store.count(name)).rejects.toMatchObject({ code: 'shutting_down' })
    const again = await place.open()
    expect(await again.count(name)).toBe(299)
    expect(await again.count(name, { must: [{ key: 'even', match: { value: true } }] })).toBe(150)
    const { hits } = await again.search(name, { vector: vector(Math.cos(1), Math.sin(1)), limit: 1 })
    expect(hits[0]!.id).toBe('id-100')
  })

  test('stats and ping report the state', async () => {
    const { store, name } = await fresh()
    await store.apply(name, [upsert('a', vector(1)), upsert('b', vector(0, 1))])
    await store.ping()
    const stats = (await store.stats()).find((each) => each.collection === name)!
    expect(stats.points).toBe(2)
    expect(stats.indexBytes).toBeGreaterThanOrEqual(0)
    expect(stats.indexedShare).toBeGreaterThanOrEqual(0)
    expect(stats.indexedShare).toBeLessThanOrEqual(1)
    expect(['ready', 'indexing']).toContain(stats.status)
  })
}
