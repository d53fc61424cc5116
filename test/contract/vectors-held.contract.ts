/** Promises of every vector engine about the operations behind its points: held ids, expired points. */

import { expect, test } from 'vitest'
import type { PointOperation, VectorStore } from '#engines/vectors/port.ts'
import { deleteOf } from '#test/support/vectors.ts'
import { at, hourMs, only, past, payloadOf, reached, seen, soon } from './vectors-expiry-tools.ts'
import type { VectorsContext } from './vectors-harness.ts'

export function describeVectorsHeld(context: VectorsContext): void {
  describeHeld(context)
  describeExpired(context)
}

function describeHeld({ fresh, vector, upsert }: VectorsContext): void {
  const point = (id: string, k = 1) => upsert(id, vector(1, k), payloadOf(k))

  test('held gives position and point of ids that are there, the position alone of those that are gone', async () => {
    const { store, name, other } = await fresh()
    const later = Date.now() + hourMs
    await store.apply(name, [
      at({ ...point('there', 2), embedder: 'model' } as PointOperation, {
        offset: 1,
        epoch: 3,
        expiresAt: later,
      }),
      at(point('plain'), { offset: 2 }),
      at(point('expired'), { offset: 3, expiresAt: past() }),
      at(deleteOf('deleted'), { offset: 4 }),
    ])
    const ids = ['plain', 'unknown', 'there', 'expired', 'deleted']
    const held = new Map((await store.held(name, ids)).map((each) => [each.id, each]))
    expect([...held.keys()].sort()).toEqual(['deleted', 'expired', 'plain', 'there'])
    expect(held.get('expired')).toEqual({ id: 'expired', position: { epoch: 1, offset: 3 } })
    expect(held.get('deleted')).toEqual({ id: 'deleted', position: { epoch: 1, offset: 4 } })
    const { vector: found, ...there } = held.get('there')!.point!
    expect(held.get('there')!.position).toEqual({ epoch: 3, offset: 1 })
    expect(there).toEqual({ id: 'there', payload: payloadOf(2), embedder: 'model', expiresAt: later })
    expect(found[1]! / found[0]!).toBeCloseTo(2, 5)
    expect(held.get('plain')!.position).toEqual({ epoch: 1, offset: 2 })
    expect(Object.keys(held.get('plain')!.point!).sort()).toEqual(['id', 'payload', 'vector'])
    expect(await store.held(other, ids)).toEqual([])
    expect(await store.held(name, [])).toEqual([])
  })

  test('held follows an expiry, later operations and forgotten deletions', async () => {
    const { store, name } = await fresh()
    const expiresAt = soon()
    const offsetAndPoint = async () =>
      (await store.held(name, ['a'])).map((held) => [held.position?.offset, held.point !== undefined])
    await store.apply(name, [at(point('a'), { offset: 5, expiresAt })])
    await reached(expiresAt)
    expect(await offsetAndPoint()).toEqual([[5, false]])
    await store.apply(name, [at(point('a'), { offset: 4 })])
    expect(await offsetAndPoint()).toEqual([[5, false]])
    await store.apply(name, [at(point('a'), { offset: 7 })])
    expect(await offsetAndPoint()).toEqual([[7, true]])
    await store.apply(name, [at(deleteOf('a'), { offset: 8 })])
    expect(await offsetAndPoint()).toEqual([[8, false]])
    await store.forgetDeletions(0)
    expect(await offsetAndPoint()).toEqual([])
  })

  test('held gives a point of an earlier release without a position', async () => {
    const former = [{ id: 'old', vector: vector(1), payload: { v: 0 } }]
    const { store, name } = await fresh(former)
    const [held] = await store.held(name, ['old'])
    expect(held!.position).toBe(undefined)
    expect(held!.point!.payload).toEqual({ v: 0 })
  })

  test('a generation that is being built is asked apart, and its points expire', async () => {
    const { store, name } = await fresh()
    await store.apply(name, [at(point('a'), { offset: 1 })])
    await store.createGeneration(2)
    const expiresAt = soon()
    const inNew = { generation: 2 }
    await store.apply(
      name,
      [
        at(point('a', 2), { offset: 5, expiresAt }),
        at(point('b', 2), { offset: 6 }),
        at(deleteOf('c'), { offset: 7 }),
        at(point('d'), { offset: 8, expiresAt: past() }),
      ],
      inNew,
    )
    await reached(expiresAt)
    const ids = ['a', 'b', 'c', 'd']
    const known = async (options?: { generation: number }) =>
      (await store.held(name, ids, options)).map(({ id, position, point: whole }) => [
        `${id}${position?.offset}`,
        whole?.payload.k,
      ])
    expect(await known()).toEqual([['a1', 1]])
    const built = [
      ['a5', undefined],
      ['b6', 2],
      ['c7', undefined],
      ['d8', undefined],
    ]
    expect((await known(inNew)).sort()).toEqual(built)
    expect(await store.expired(name, 10)).toEqual([])
    await store.promoteGeneration(2)
    expect((await known()).sort()).toEqual(built)
    expect(await seen(store, name, ids, vector(1))).toEqual(only('b'))
    expect((await store.expired(name, 10)).map(({ id }) => id).sort()).toEqual(['a', 'd'])
  })

  test('points of a generation expire on the way to its promotion, though nothing read it', async () => {
    const { store, name } = await fresh()
    await store.createGeneration(2)
    const expiresAt = soon()
    await store.apply(name, [at(point('a'), { offset: 1, expiresAt })], { generation: 2 })
    await reached(expiresAt)
    await store.promoteGeneration(2)
    expect(await store.count(name)).toBe(0)
  })
}

function describeExpired({ fresh, vector, upsert }: VectorsContext): void {
  const point = (id: string) => upsert(id, vector(1), payloadOf(1))
  const listed = async (store: VectorStore, name: string, limit = 10) =>
    (await store.expired(name, limit)).map(({ id, position }) => `${id}${position.offset}`).sort()

  test('expired lists points until an operation writes or deletes them', async () => {
    const { store, name, other } = await fresh()
    const expiresAt = soon()
    expect(await store.expired(name, 10)).toEqual([])
    await store.apply(name, [
      at(point('a'), { offset: 1, epoch: 2, expiresAt }),
      at(point('b'), { offset: 2, expiresAt }),
      at(point('c'), { offset: 3, expiresAt: past() }),
      at(point('later'), { offset: 4, expiresAt: expiresAt + hourMs }),
      at(point('stays'), { offset: 5 }),
      at(deleteOf('deleted'), { offset: 6 }),
    ])
    await reached(expiresAt)
    expect(await listed(store, name)).toEqual(['a1', 'b2', 'c3'])
    expect((await store.expired(name, 10)).find(({ id }) => id === 'a')!.position.epoch).toBe(2)
    expect(await listed(store, other)).toEqual([])
    await store.apply(name, [
      at(deleteOf('a'), { offset: 10, epoch: 2 }),
      at(point('b'), { offset: 11 }),
      at(point('c'), { offset: 12, expiresAt: past() }),
    ])
    expect(await listed(store, name)).toEqual(['c12'])
  })

  test('expired gives no more than its limit, and all of them by and by', async () => {
    const { store, name } = await fresh()
    const ids = Array.from({ length: 60 }, (_, i) => `p${i}`)
    await store.apply(
      name,
      ids.map((id, i) => at(point(id), { offset: i, expiresAt: past() })),
    )
    const met: string[] = []
    for (let round = 0; round < 3; round++) {
      const some = await store.expired(name, 25)
      expect(some.length).toBe(round < 2 ? 25 : 10)
      met.push(...some.map(({ id }) => id))
      await store.apply(
        name,
        some.map(({ id, position }) => at(deleteOf(id), { offset: position.offset + 100 })),
      )
    }
    expect(met.sort()).toEqual(ids.sort())
    expect(await store.expired(name, 25)).toEqual([])
  })

  test('forgetting deletions forgets no expired point until an operation has deleted it', async () => {
    const { store, name } = await fresh()
    const expiresAt = soon()
    await store.apply(name, [
      at(point('a'), { offset: 10, expiresAt }),
      at(point('b'), { offset: 11, expiresAt: past() }),
      at(deleteOf('c'), { offset: 12 }),
    ])
    await reached(expiresAt)
    await store.forgetDeletions(0)
    await store.forgetDeletions(0)
    expect(await listed(store, name)).toEqual(['a10', 'b11'])
    await store.apply(
      name,
      ['a', 'b', 'c'].map((id) => at(point(id), { offset: 5 })),
    )
    expect((await store.get(name, ['a', 'b', 'c'])).map(({ id }) => id)).toEqual(['c'])
    await store.apply(name, [at(deleteOf('a'), { offset: 20 })])
    await store.forgetDeletions(0)
    expect(await listed(store, name)).toEqual(['b11'])
    await store.apply(name, [at(point('a'), { offset: 15 })])
    expect((await store.get(name, ['a', 'b'])).map(({ id }) => id)).toEqual(['a'])
  })
}
