/** Promises of every vector engine about generations: built while the live one is used, promoted at once. */

import { expect, test } from 'vitest'
import type { VectorsContext } from './vectors-harness.ts'

export function describeVectorGenerations({ fresh, vector, upsert }: VectorsContext): void {
  test('a generation is built while the live one is used, and replaces it at once', async () => {
    const { store, name, other } = await fresh()
    expect(await store.liveGeneration()).toBe(1)
    await store.apply(name, [upsert('old', vector(1)), upsert('both', vector(0, 1), { from: 1 })])
    await store.createGeneration(2)
    await store.apply(name, [upsert('new', vector(1)), upsert('both', vector(0, 1), { from: 2 })], {
      generation: 2,
    })
    await store.apply(other, [upsert('elsewhere', vector(1))], { generation: 2 })
    expect(await store.liveGeneration()).toBe(1)
    expect((await store.get(name, ['old', 'new', 'both'])).map((point) => point.id)).toEqual(['old', 'both'])
    expect(await store.count(other)).toBe(0)
    await store.promoteGeneration(2)
    expect(await store.liveGeneration()).toBe(2)
    expect((await store.get(name, ['old', 'new', 'both'])).map((point) => point.id)).toEqual(['new', 'both'])
    expect((await store.get(name, ['both']))[0]!.payload.from).toBe(2)
    expect(await store.count(other)).toBe(1)
    expect((await store.search(name, { vector: vector(1), limit: 5 })).hits.map((hit) => hit.id)).toEqual([
      'new',
      'both',
    ])
    await store.apply(name, [upsert('later', vector(1, 1))])
    expect(await store.count(name)).toBe(3)
  })

  test('a half-built generation is emptied when it is begun again, and can be dropped', async () => {
    const { store, name } = await fresh()
    await store.apply(name, [upsert('live', vector(1))])
    await store.createGeneration(2)
    await store.apply(name, [upsert('stale', vector(1))], { generation: 2 })
    await store.createGeneration(2)
    await store.apply(name, [upsert('right', vector(1))], { generation: 2 })
    await store.createGeneration(3)
    await store.apply(name, [upsert('never', vector(1))], { generation: 3 })
    await store.dropGeneration(3)
    await store.dropGeneration(3)
    await store.promoteGeneration(2)
    expect((await store.scroll(name, { limit: 10 })).points.map((point) => point.id)).toEqual(['right'])
  })

  test('the live generation is neither emptied nor dropped', async () => {
    const { store, name } = await fresh()
    await store.apply(name, [upsert('a', vector(1))])
    await expect(store.createGeneration(1)).rejects.toMatchObject({ code: 'conflict' })
    await expect(store.dropGeneration(1)).rejects.toMatchObject({ code: 'conflict' })
    await store.promoteGeneration(1)
    await expect(store.promoteGeneration(9)).rejects.toMatchObject({ code: 'conflict' })
    expect(await store.count(name)).toBe(1)
  })

  test('the live generation and a half-built one are the same after opening again', async () => {
    const { store, name, place } = await fresh()
    await store.createGeneration(2)
    await store.apply(name, [upsert('two', vector(1))], { generation: 2 })
    await store.promoteGeneration(2)
    await store.createGeneration(3)
    await store.apply(name, [upsert('three', vector(1))], { generation: 3 })
    await store.close()
    const again = await place.open()
    expect(await again.liveGeneration()).toBe(2)
    expect((await again.get(name, ['two', 'three'])).map((point) => point.id)).toEqual(['two'])
    await again.apply(name, [upsert('more', vector(0, 1))], { generation: 3 })
    await again.promoteGeneration(3)
    expect((await again.scroll(name, { limit: 5 })).points.map((point) => point.id).sort()).toEqual([
      'more',
      'three',
    ])
  })

  test('readers meet either the old or the new generation, whole, while it is flipped', async () => {
    const { store, name } = await fresh()
    const points = (version: number) =>
      Array.from({ length: 150 }, (_, i) => upsert(`p${i}`, vector(1, i), { version }))
    await store.apply(name, points(1))
    let flipping = true
    const versions = new Set<unknown>()
    const reading = (async () => {
      while (flipping) {
        const { hits } = await store.search(name, { vector: vector(1), limit: 150 })
        expect(hits.length).toBe(150)
        expect(new Set(hits.map((hit) => hit.payload!.version)).size).toBe(1)
        versions.add(hits[0]!.payload!.version)
      }
    })()
    for (const generation of [2, 3, 4]) {
      await store.createGeneration(generation)
      await store.apply(name, points(generation), { generation })
      await store.promoteGeneration(generation)
    }
    flipping = false
    await reading
    expect((await store.get(name, ['p0']))[0]!.payload.version).toBe(4)
    expect(versions.size).toBeGreaterThan(0)
  })
}
