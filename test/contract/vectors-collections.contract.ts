/** Promises of every vector engine about collections that are made by their first write, and about embedders. */

import { describe, expect, test } from 'vitest'
import type { VectorStore } from '#engines/vectors/port.ts'
import type { VectorsContext } from './vectors-harness.ts'

/** Stored names of a place of its own: `name` begins all of its collections. */
const stored = (name: string, own: string, making = '0a1b2c3d4e') =>
  `${name.replace(/_first$/, '')}${own}~${making}`

export function describeVectorCollections({ fresh, vector, upsert }: VectorsContext): void {
  const idsOf = async (store: VectorStore, collection: string) =>
    (await store.scroll(collection, { limit: 100 })).points.map(({ id }) => id).sort()

  async function expectEmpty(store: VectorStore, collection: string): Promise<void> {
    expect(await store.search(collection, { vector: vector(1), limit: 5 })).toMatchObject({
      hits: [],
      eligible: 0,
    })
    expect(await store.scroll(collection, { limit: 5 })).toEqual({ points: [], next: null })
    expect(await store.count(collection)).toBe(0)
    expect(await store.get(collection, ['a'])).toEqual([])
    expect(await store.embedders(collection)).toEqual([])
    expect((await store.stats()).map((one) => one.collection)).not.toContain(collection)
  }

  describe('collections of their own', () => {
    test('read as empty until they are written, and are there after opening again', async () => {
      const { store, name, place } = await fresh()
      const own = stored(name, 'own')
      await expectEmpty(store, own)
      await store.apply(own, [upsert('a', vector(1), { of: 'own' }), upsert('b', vector(0, 1))])
      await store.apply(name, [upsert('c', vector(1))])
      expect(await idsOf(store, own)).toEqual(['a', 'b'])
      expect(await idsOf(store, name)).toEqual(['c'])
      const { hits, eligible } = await store.search(own, { vector: vector(1), limit: 1 })
      expect([hits.map(({ id }) => id), eligible]).toEqual([['a'], 2])
      const filter = { must: [{ key: 'of', match: { value: 'own' } }] }
      expect(await store.count(own, filter)).toBe(1)
      expect(await store.stats()).toContainEqual(
        expect.objectContaining({ collection: own, points: 2, status: 'ready' }),
      )
      await store.close()
      const again = await place.open()
      expect(await idsOf(again, own)).toEqual(['a', 'b'])
      await again.close()
    })

    test('of names that are nearly alike have nothing in common', async () => {
      const { store, name } = await fresh()
      const names = ['-a', '_a', 'a-b', 'a_b', 'x'.repeat(40)]
      const all = [...names.map((one) => stored(name, one)), stored(name, '-a', 'ffffffffff')]
      for (const [n, own] of all.entries()) await store.apply(own, [upsert(`p${n}`, vector(1))])
      for (const [n, own] of all.entries()) expect(await idsOf(store, own)).toEqual([`p${n}`])
    })

    test('must have a stored name', async () => {
      const { store } = await fresh()
      for (const name of ['nothing', 'Tea~0a1b2c3d4e', 'tea~', '../x~0a1b2c3d4e']) {
        await expect(store.count(name)).rejects.toMatchObject({ code: 'collection_not_found' })
        await expect(store.apply(name, [upsert('a', vector(1))])).rejects.toMatchObject({
          code: 'collection_not_found',
        })
      }
    })

    test('are gone at once when they are dropped, and empty when they are written again', async () => {
      const { store, name, place } = await fresh()
      const [own, other] = [stored(name, 'own'), stored(name, 'other')]
      const many = Array.from({ length: 600 }, (_, n) => upsert(`p${n}`, vector(1, n)))
      await store.apply(own, many)
      await store.apply(other, [upsert('stays', vector(1))])
      await store.dropCollection(own)
      await store.dropCollection(own)
      await store.dropCollection(stored(name, 'never'))
      await expectEmpty(store, own)
      await store.apply(own, [upsert('p7', vector(1))])
      expect(await idsOf(store, own)).toEqual(['p7'])
      await store.close()
      const again = await place.open()
      expect([await idsOf(again, own), await idsOf(again, other)]).toEqual([['p7'], ['stays']])
      await expect(again.dropCollection(name)).rejects.toMatchObject({ code: 'conflict' })
      await again.close()
    })

    test('come with the generations that they were written in', async () => {
      const { store, name } = await fresh()
      const [both, oldOnly, newOnly] = ['both', 'old', 'new'].map((own) => stored(name, own)) as [
        string,
        string,
        string,
      ]
      await store.apply(both, [upsert('old', vector(1))])
      await store.apply(oldOnly, [upsert('old', vector(1))])
      await store.createGeneration(2)
      await store.apply(both, [upsert('new', vector(1))], { generation: 2 })
      await store.apply(newOnly, [upsert('new', vector(1))], { generation: 2 })
      expect([await idsOf(store, both), await store.count(newOnly)]).toEqual([['old'], 0])
      await expect(store.apply(both, [upsert('never', vector(1))], { generation: 7 })).rejects.toMatchObject({
        code: 'conflict',
      })
      await store.promoteGeneration(2)
      expect([await idsOf(store, both), await idsOf(store, newOnly)]).toEqual([['new'], ['new']])
      await expectEmpty(store, oldOnly)
      await store.apply(oldOnly, [upsert('again', vector(1))], { generation: 2 })
      expect(await idsOf(store, oldOnly)).toEqual(['again'])
      await store.createGeneration(3)
      await store.apply(both, [upsert('third', vector(1))], { generation: 3 })
      await store.dropCollection(both)
      await store.promoteGeneration(3)
      await expectEmpty(store, both)
    })

    test('a half-built generation that is begun again has none of them', async () => {
      const { store, name } = await fresh()
      const own = stored(name, 'own')
      await store.createGeneration(2)
      await store.apply(own, [upsert('stale', vector(1))], { generation: 2 })
      await store.createGeneration(2)
      await store.promoteGeneration(2)
      await expectEmpty(store, own)
    })

    test('forget their deletions as the others do', async () => {
      const { store, name } = await fresh()
      const own = stored(name, 'own')
      const early = { ...upsert('a', vector(1)), position: { epoch: 1, offset: 5 } }
      await store.apply(own, [early, { id: 'a', kind: 'delete', position: { epoch: 1, offset: 9 } }])
      await store.apply(own, [early])
      expect(await store.count(own)).toBe(0)
      await store.forgetDeletions(-1_000)
      await store.apply(own, [early])
      expect(await store.count(own)).toBe(1)
    })
  })

  test('a point remembers its embedder until it is written without one', async () => {
    const { store, name } = await fresh()
    for (const collection of [name, stored(name, 'own')]) {
      const point = (id: string, embedder?: string) => ({
        ...upsert(id, vector(1), { kind: id < 'c' ? 'early' : 'late' }),
        ...(embedder === undefined ? {} : { embedder }),
      })
      await store.apply(collection, [
        point('a', 'words-1'),
        point('b', 'words-1'),
        point('c', 'm/2'),
        point('d'),
      ])
      const { hits } = await store.search(collection, { vector: vector(1), limit: 9, withPayload: false })
      expect(hits.map(({ id, embedder }) => [id, embedder])).toEqual([
        ['a', 'words-1'],
        ['b', 'words-1'],
        ['c', 'm/2'],
        ['d', undefined],
      ])
      expect((await store.get(collection, ['c', 'd'])).map(({ embedder }) => embedder)).toEqual([
        'm/2',
        undefined,
      ])
      const counted = async (...filter: Parameters<VectorStore['embedders']>[1][]) =>
        new Map(
          (await store.embedders(collection, ...filter)).map(({ embedder, points }) => [embedder, points]),
        )
      expect(await counted()).toEqual(
        new Map([
          ['words-1', 2],
          ['m/2', 1],
          [null, 1],
        ]),
      )
      expect(await counted({ must: [{ key: 'kind', match: { value: 'early' } }] })).toEqual(
        new Map([['words-1', 2]]),
      )
      await store.apply(collection, [point('a'), point('c', 'words-1')])
      expect(await counted()).toEqual(
        new Map([
          ['words-1', 2],
          [null, 2],
        ]),
      )
    }
  })
}
