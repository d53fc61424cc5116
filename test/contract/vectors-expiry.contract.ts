/** Promises of every vector engine about points that expire: no read shows them, their position stays. */

import { expect, test } from 'vitest'
import type { PointOperation, VectorStore } from '#engines/vectors/port.ts'
import { deleteOf } from '#test/support/vectors.ts'
import {
  at,
  hourMs,
  isAny,
  isPositive,
  only,
  past,
  payloadOf,
  reached,
  seen,
  soon,
} from './vectors-expiry-tools.ts'
import type { VectorsContext } from './vectors-harness.ts'

export function describeVectorExpiry(context: VectorsContext): void {
  describeReads(context)
  describeOrder(context)
}

function describeReads({ fresh, vector, upsert }: VectorsContext): void {
  const ids = ['a', 'b', 'stays']
  const point = (id: string, k: number) => upsert(id, vector(1, k), payloadOf(k))

  test('from its expiry on no read shows a point', async () => {
    const { store, name } = await fresh()
    await store.apply(name, [
      at(point('stays', 1), { offset: 1 }),
      at(point('later', 2), { offset: 2, expiresAt: Date.now() + hourMs }),
    ])
    const expiresAt = soon()
    await store.apply(name, [
      at(point('a', 3), { offset: 3, expiresAt }),
      at({ ...point('b', 4), embedder: 'model' } as PointOperation, { offset: 4, expiresAt }),
    ])
    const all = [...ids, 'later']
    const before = await seen(store, name, all, vector(1))
    // On a machine that took too long they may have expired.
    if (Date.now() < expiresAt) expect(before).toEqual(only('a', 'b', 'later', 'stays'))
    await reached(expiresAt)
    expect(await seen(store, name, all, vector(1))).toEqual(only('later', 'stays'))
    expect(await store.embedders(name)).toEqual([{ embedder: null, points: 2 }])
  })

  test('each kind of read, when it is the first after an expiry, leaves the point out', async () => {
    const { store, name } = await fresh()
    await store.apply(name, [at(point('stays', 1), { offset: 1 })])
    const reads: Record<string, [read: () => Promise<unknown>, want: unknown]> = {
      count: [() => store.count(name), 1],
      filtered: [() => store.count(name, isAny), 1],
      ranged: [() => store.count(name, isPositive), 1],
      get: [async () => (await store.get(name, ids)).map(({ id }) => id), ['stays']],
      scroll: [async () => (await store.scroll(name, { limit: 5 })).points.map(({ id }) => id), ['stays']],
      stats: [async () => (await store.stats()).find((one) => one.collection === name)!.points, 1],
      embedders: [() => store.embedders(name), [{ embedder: null, points: 1 }]],
      search: [
        async () => (await store.search(name, { vector: vector(1), limit: 5 })).hits.map(({ id }) => id),
        ['stays'],
      ],
    }
    let offset = 2
    for (const [kind, [read, want]] of Object.entries(reads)) {
      const expiresAt = Date.now() + 150
      await store.apply(name, [at(point('a', 2), { offset: offset++, expiresAt })])
      await reached(expiresAt)
      expect(await read(), kind).toEqual(want)
    }
  })

  test('a search counts no expired point as eligible', async () => {
    const { store, name } = await fresh()
    const expiresAt = soon()
    const many = Array.from({ length: 200 }, (_, i) =>
      at(point(`p${i}`, i + 1), { offset: i, ...(i % 2 === 0 ? {} : { expiresAt }) }),
    )
    await store.apply(name, many)
    await reached(expiresAt)
    for (const filter of [undefined, isAny, isPositive]) {
      const query = { vector: vector(1), limit: 150, ...(filter ? { filter } : {}) }
      const { hits, eligible } = await store.search(name, query)
      expect([hits.length, eligible]).toEqual([100, 100])
      expect(hits.every(({ id }) => Number(id.slice(1)) % 2 === 0)).toBe(true)
    }
    expect((await store.search(name, { vector: vector(1, 199), limit: 3 })).hits.length).toBe(3)
  })

  test('pages of a scroll go on over points that expire meanwhile', async () => {
    const { store, name } = await fresh()
    const expiresAt = soon()
    const many = Array.from({ length: 40 }, (_, i) =>
      at(point(`p${String(i).padStart(2, '0')}`, i + 1), {
        offset: i,
        ...(i % 4 === 0 ? {} : { expiresAt }),
      }),
    )
    await store.apply(name, many)
    const first = await store.scroll(name, { limit: 3 })
    await reached(expiresAt)
    const rest = await store.scroll(name, { limit: 40, offset: first.next! })
    const numbersOf = ({ points }: typeof first) => points.map(({ id }) => Number(id.slice(1)))
    const stay = (n: number) => n % 4 === 0
    expect(numbersOf(rest).every(stay)).toBe(true)
    // A driver may order ids as it likes.
    const met = [...numbersOf(first), ...numbersOf(rest)].filter(stay)
    expect(met.sort((a, b) => a - b)).toEqual([0, 4, 8, 12, 16, 20, 24, 28, 32, 36])
    expect(rest.next).toBe(null)
  })

  test('reads give the expiry of points that have one, and no other key', async () => {
    const { store, name } = await fresh()
    const expiresAt = Date.now() + hourMs
    const far = 253_402_300_799_999
    await store.apply(name, [
      at(point('a', 1), { offset: 1, expiresAt }),
      at(point('b', 2), { offset: 2, expiresAt: far }),
      at(point('stays', 3), { offset: 3 }),
    ])
    const want = [expiresAt, far, undefined]
    const got = await store.get(name, ids)
    expect(got.map((each) => each.expiresAt)).toEqual(want)
    expect(got[0]!.payload).toEqual(payloadOf(1))
    expect(got.map((each) => Object.hasOwn(each, 'expiresAt'))).toEqual([true, true, false])
    const found = [
      (await store.scroll(name, { limit: 5 })).points,
      (await store.scroll(name, { limit: 5, updatedAt: 'asc', withPayload: false })).points,
      (await store.search(name, { vector: vector(1, 1), limit: 5 })).hits,
    ]
    for (const points of found) {
      expect(new Map(points.map((each) => [each.id, each.expiresAt]))).toEqual(
        new Map(ids.map((id, i) => [id, want[i]])),
      )
    }
    for (const key of ['expiresAt', 'expires_at']) {
      expect(await store.count(name, { must: [{ key, match: { value: expiresAt } }] }), key).toBe(0)
    }
  })

  test('a point that is written after its expiry never shows, and takes the one before it away', async () => {
    const { store, name } = await fresh()
    await store.apply(name, [at(point('a', 1), { offset: 1 }), at(point('stays', 2), { offset: 2 })])
    await store.apply(name, [
      at(point('a', 3), { offset: 3, expiresAt: past() }),
      at(point('b', 4), { offset: 4, expiresAt: past() }),
    ])
    expect(await seen(store, name, ids, vector(1))).toEqual(only('stays'))
    await store.apply(name, [at(point('a', 5), { offset: 2 }), at(point('b', 6), { offset: 3 })])
    expect(await seen(store, name, ids, vector(1))).toEqual(only('stays'))
  })

  test('an expiry stays when the store is opened again, also one that passes while it is closed', async () => {
    const { store, name, place } = await fresh()
    const expiresAt = soon()
    const later = Date.now() + hourMs
    await store.apply(name, [
      at(point('a', 1), { offset: 1, expiresAt }),
      at(point('b', 2), { offset: 2, expiresAt: later }),
      at(point('gone', 4), { offset: 4, expiresAt: past() }),
      at(point('stays', 3), { offset: 3 }),
    ])
    await store.close()
    await reached(expiresAt)
    const again = await place.open()
    expect(await seen(again, name, [...ids, 'gone'], vector(1))).toEqual(only('b', 'stays'))
    expect((await again.get(name, ['b']))[0]!.expiresAt).toBe(later)
    await again.apply(name, [at(point('a', 5), { offset: 0 }), at(point('gone', 6), { offset: 3 })])
    expect(await again.count(name)).toBe(2)
    expect((await again.expired(name, 10)).map(({ id }) => id).sort()).toEqual(['a', 'gone'])
  })
}

function describeOrder({ fresh, vector, upsert }: VectorsContext): void {
  const point = (id: string, k = 1) => upsert(id, vector(1, k), payloadOf(k))
  const present = async (store: VectorStore, name: string, ...ids: string[]) =>
    (await store.get(name, ids)).map(({ id, payload }) => `${id}${payload.k}`)

  test('an older operation leaves an expired point away, a newer one brings it back', async () => {
    const { store, name } = await fresh()
    const expiresAt = soon()
    await store.apply(
      name,
      ['a', 'b', 'c'].map((id, i) => at(point(id), { offset: 10 + i, expiresAt })),
    )
    await reached(expiresAt)
    await store.apply(name, [at(point('a', 2), { offset: 9 }), at(point('b', 2), { offset: 11 })])
    expect(await present(store, name, 'a', 'b', 'c')).toEqual([])
    await store.apply(name, [
      at(point('a', 3), { offset: 20 }),
      at(point('b', 3), { offset: 21, expiresAt: Date.now() + hourMs }),
      at(point('c', 3), { offset: 2, epoch: 2 }),
    ])
    expect(await present(store, name, 'a', 'b', 'c')).toEqual(['a3', 'b3', 'c3'])
    expect(await store.count(name, isAny)).toBe(3)
    const got = await store.get(name, ['a', 'b'])
    expect(got.map((each) => each.expiresAt !== undefined)).toEqual([false, true])
    expect(await store.expired(name, 10)).toEqual([])
  })

  test('a newer write before the expiry decides: with none the point stays, with another it has that one', async () => {
    const { store, name } = await fresh()
    const expiresAt = soon()
    const later = expiresAt + hourMs
    await store.apply(
      name,
      ['a', 'b', 'c'].map((id, i) => at(point(id), { offset: i, expiresAt })),
    )
    await store.apply(name, [
      at(point('a', 2), { offset: 10 }),
      at(point('b', 2), { offset: 11, expiresAt: later }),
      at(deleteOf('c'), { offset: 12 }),
    ])
    await store.apply(name, [at(point('d'), { offset: 20 }), at(point('d', 2), { offset: 21, expiresAt })])
    await reached(expiresAt)
    expect(await present(store, name, 'a', 'b', 'c', 'd')).toEqual(['a2', 'b2'])
    expect(await store.count(name)).toBe(2)
    expect(await store.expired(name, 10)).toEqual([{ id: 'd', position: { epoch: 1, offset: 21 } }])
  })

  test('in one call the newest operation of a point decides about its expiry', async () => {
    const { store, name } = await fresh()
    await store.apply(name, [
      at(point('a', 2), { offset: 2, expiresAt: past() }),
      at(point('a', 1), { offset: 1 }),
      at(point('b', 1), { offset: 3, expiresAt: past() }),
      at(point('b', 2), { offset: 4 }),
    ])
    expect(await present(store, name, 'a', 'b')).toEqual(['b2'])
  })

  test('a delete of an expired point keeps older operations out', async () => {
    const { store, name } = await fresh()
    await store.apply(name, [at(point('a'), { offset: 10, expiresAt: past() })])
    await store.apply(name, [at(deleteOf('a'), { offset: 9 })])
    expect((await store.expired(name, 10)).map(({ position }) => position.offset)).toEqual([10])
    await store.apply(name, [at(deleteOf('a'), { offset: 20 })])
    await store.apply(name, [at(point('a', 2), { offset: 15 })])
    expect(await present(store, name, 'a')).toEqual([])
    await store.apply(name, [at(point('a', 3), { offset: 21 })])
    expect(await present(store, name, 'a')).toEqual(['a3'])
  })
}
