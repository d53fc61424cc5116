/** Promises of every vector engine about the positions of operations: no point goes back to an older record. */

import fc from 'fast-check'
import { expect, test } from 'vitest'
import type { Point, PointOperation, VectorStore } from '#engines/vectors/port.ts'
import { propertyRuns } from '#test/support/property-runs.ts'
import { createRandom, deleteOf, vectorOf } from '#test/support/vectors.ts'
import type { VectorsContext } from './vectors-harness.ts'

type Positioned = (operation: PointOperation, offset: number, epoch?: number) => PointOperation

const at: Positioned = (operation, offset, epoch = 1) => ({ ...operation, position: { epoch, offset } })

/** The answers of each kind of read about the points of a collection. */
async function seen(store: VectorStore, name: string, ids: string[], dimension: number) {
  const filter = { must: [{ key: 'all', match: { value: true } }] }
  const vector = vectorOf(dimension, 1)
  const [found, filtered, few] = [
    await store.search(name, { vector, limit: 100 }),
    await store.search(name, { vector, limit: 100, filter }),
    await store.search(name, { vector, limit: 1 }),
  ]
  const scrolled = (await store.scroll(name, { limit: 100, withPayload: false })).points
  const names = (of: { id: string }[]) => of.map(({ id }) => id).sort()
  return {
    get: names(await store.get(name, ids)),
    search: names(found.hits),
    filtered: names(filtered.hits),
    scroll: names(scrolled),
    scrollFiltered: names((await store.scroll(name, { limit: 100, filter })).points),
    count: await store.count(name),
    countFiltered: await store.count(name, filter),
    eligible: found.eligible,
    eligibleOfFew: few.eligible,
    stats: (await store.stats()).find((one) => one.collection === name)!.points,
  }
}

function only(...ids: string[]) {
  const n = ids.length
  return {
    ...{ get: ids, search: ids, filtered: ids, scroll: ids, scrollFiltered: ids },
    ...{ count: n, countFiltered: n, eligible: n, eligibleOfFew: n, stats: n },
  }
}

export function describeVectorPositions(context: VectorsContext): void {
  describeOrder(context)
  describeDeletions(context)
  describeRandomOrder(context)
}

function describeOrder({ fresh, vector, upsert }: VectorsContext): void {
  const version = async (store: VectorStore, name: string, id = 'a') =>
    (await store.get(name, [id]))[0]?.payload.v

  test('an older write that comes late is left out, and counts as applied', async () => {
    const { store, name } = await fresh()
    await store.apply(name, [at(upsert('a', vector(0, 1), { v: 2 }), 20)])
    await store.apply(name, [
      at(upsert('a', vector(1), { v: 1 }), 10),
      at(upsert('b', vector(1), { v: 1 }), 11),
    ])
    expect([await version(store, name), await version(store, name, 'b')]).toEqual([2, 1])
    expect((await store.search(name, { vector: vector(0, 1), limit: 1 })).hits[0]!.id).toBe('a')
    expect(await store.count(name, { must: [{ key: 'v', match: { value: 1 } }] })).toBe(1)
  })

  test('the same record again changes nothing', async () => {
    const { store, name } = await fresh()
    const once = [at(upsert('a', vector(1), { v: 1 }), 5), at(upsert('b', vector(1), { v: 1 }), 6)]
    await store.apply(name, once)
    await store.apply(name, [...once, at(upsert('a', vector(1), { v: 'other' }), 5)])
    expect([await version(store, name), await store.count(name)]).toEqual([1, 2])
  })

  test('a higher epoch is newer at any offset, a lower one never is', async () => {
    const { store, name } = await fresh()
    await store.apply(name, [at(upsert('a', vector(1), { v: 1 }), 900, 1)])
    await store.apply(name, [at(upsert('a', vector(1), { v: 2 }), 3, 2)])
    await store.apply(name, [at(upsert('a', vector(1), { v: 'late' }), 1_000, 1)])
    expect(await version(store, name)).toBe(2)
  })

  test('in one call the highest position of a point wins, in whatever order', async () => {
    const { store, name } = await fresh()
    await store.apply(name, [
      at(upsert('a', vector(1), { v: 2 }), 2),
      at(upsert('a', vector(1), { v: 1 }), 1),
      at(upsert('b', vector(1), { v: 1 }), 3),
      at(deleteOf('b'), 9),
      at(upsert('b', vector(1), { v: 2 }), 7),
    ])
    expect([await version(store, name), await store.count(name)]).toEqual([2, 1])
  })

  test('a call that joins partitions judges each point by its own position', async () => {
    const { store, name } = await fresh()
    // One partition is far ahead of the other: what its points hold is above the lowest position of the next call.
    const low = (n: number, v: number) => at(upsert(`low-${n}`, vector(1, n), { v }), v * 10 + n)
    const high = (n: number, v: number) => at(upsert(`high-${n}`, vector(1, n), { v }), 50_000 + v * 10 + n)
    const points = [0, 1, 2, 3]
    await store.apply(
      name,
      [1, 3].flatMap((v) => points.flatMap((n) => [low(n, v), high(n, v)])),
    )
    await store.apply(
      name,
      points.flatMap((n) => [low(n, n < 2 ? 2 : 4), high(n, n < 2 ? 4 : 2)]),
    )
    const ids = points.flatMap((n) => [`low-${n}`, `high-${n}`])
    const held = await store.get(name, ids)
    expect(held.map((point) => point.payload.v)).toEqual([3, 4, 3, 4, 4, 3, 4, 3])
  })

  test('positions show nowhere, and payload keys of the same names are the payload', async () => {
    const { store, name } = await fresh()
    const own = { epoch: 7, offset: 8, deletedAt: 9, position: 1 }
    await store.apply(name, [
      at(upsert('plain', vector(1), { k: 1 }), 41),
      at(upsert('own', vector(1), own), 42),
    ])
    for (const [key, value] of [
      ['epoch', 1],
      ['offset', 41],
      ['offset', 42],
      ['position', 41],
    ] as const) {
      expect(await store.count(name, { must: [{ key, match: { value } }] }), key).toBe(0)
    }
    expect(await store.count(name, { must: [{ key: 'deletedAt', match: { value: 9 } }] })).toBe(1)
    const { hits } = await store.search(name, { vector: vector(1), limit: 5, withVector: true })
    expect(hits.map(({ id, payload }) => [id, payload])).toEqual([
      ['own', own],
      ['plain', { k: 1 }],
    ])
    expect(hits.every((hit) => Object.keys(hit).sort().join() === 'id,payload,score,vector')).toBe(true)
    const { points } = await store.scroll(name, { limit: 5 })
    expect(points.every((point) => Object.keys(point).sort().join() === 'id,payload')).toBe(true)
    expect(Object.keys((await store.get(name, ['own']))[0]!).sort()).toEqual(['id', 'payload', 'vector'])
  })

  test('points that have no position yet are read, overwritten and deleted', async () => {
    const former = ['kept', 'changed', 'removed'].map(
      (id, i): Point => ({ id, vector: vector(1, i), payload: { v: 0, all: true } }),
    )
    const { store, name, place } = await fresh(former)
    expect(await store.count(name, { must: [{ key: 'v', match: { value: 0 } }] })).toBe(3)
    await store.apply(name, [at(upsert('changed', vector(1), { v: 1 }), 0), at(deleteOf('removed'), 1)])
    await store.apply(name, [at(upsert('removed', vector(1), { v: 'late' }), 0)])
    await store.close()
    const again = await place.open()
    const points = await again.get(name, ['kept', 'changed', 'removed'])
    expect(points.map(({ id, payload }) => [id, payload])).toEqual([
      ['kept', { v: 0, all: true }],
      ['changed', { v: 1 }],
    ])
    expect((await again.search(name, { vector: vector(1), limit: 5 })).hits.length).toBe(2)
  })

  test('positions are apart in every generation and go with the promoted one', async () => {
    const { store, name } = await fresh()
    await store.apply(name, [at(upsert('a', vector(1), { v: 9 }), 90), at(upsert('gone', vector(1)), 91)])
    await store.createGeneration(2)
    await store.apply(
      name,
      [at(upsert('a', vector(1), { v: 5 }), 50), at(deleteOf('gone'), 51), at(upsert('b', vector(1)), 52)],
      { generation: 2 },
    )
    await store.apply(name, [at(upsert('a', vector(1), { v: 'late' }), 40)], { generation: 2 })
    expect(await version(store, name)).toBe(9)
    await store.promoteGeneration(2)
    await store.apply(name, [
      at(upsert('a', vector(1), { v: 'late' }), 49),
      at(upsert('gone', vector(1)), 50),
    ])
    expect(await version(store, name)).toBe(5)
    expect(await store.count(name)).toBe(2)
  })

  test('a call that its signal ends throws that the engine is away', async () => {
    const { store, name } = await fresh()
    const signal = AbortSignal.abort()
    await expect(store.apply(name, [upsert('a', vector(1))], { signal })).rejects.toMatchObject({
      code: 'vector_engine_unavailable',
    })
    await store.apply(name, [upsert('a', vector(1))], { signal: new AbortController().signal })
    expect(await store.count(name)).toBe(1)
  })
}

function describeDeletions({ fresh, vector, upsert, dimension }: VectorsContext): void {
  const one = (id: string, offset: number) => at(upsert(id, vector(1, offset), { all: true }), offset)

  test('a late delete removes nothing that was written after it', async () => {
    const { store, name } = await fresh()
    await store.apply(name, [one('a', 20)])
    await store.apply(name, [at(deleteOf('a'), 10), at(deleteOf('b'), 11)])
    expect(await seen(store, name, ['a', 'b'], dimension)).toEqual(only('a'))
  })

  test('a deleted point stays deleted when an older write comes late, and comes back by a newer one', async () => {
    const { store, name, place } = await fresh()
    await store.apply(name, [one('a', 10), one('other', 11)])
    await store.apply(name, [at(deleteOf('a'), 30)])
    await store.apply(name, [one('a', 20), at(deleteOf('a'), 25)])
    expect(await seen(store, name, ['a', 'other'], dimension)).toEqual(only('other'))
    await store.close()
    const again = await place.open()
    await again.apply(name, [one('a', 29)])
    expect(await seen(again, name, ['a', 'other'], dimension)).toEqual(only('other'))
    await again.apply(name, [one('a', 31)])
    // The count of a search may be some seconds old.
    const after = { ...(await seen(again, name, ['a', 'other'], dimension)), eligible: 2, eligibleOfFew: 2 }
    expect(after).toEqual(only('a', 'other'))
  })

  test('a delete that comes before the write that it follows in the log prevents it', async () => {
    const { store, name } = await fresh()
    await store.apply(name, [at(deleteOf('a'), 30), one('b', 31)])
    await store.apply(name, [one('a', 20)])
    expect(await seen(store, name, ['a', 'b'], dimension)).toEqual(only('b'))
  })

  test('many deleted points take nothing from a search, also one for the place where they were', async () => {
    const { store, name } = await fresh()
    const ids = Array.from({ length: 400 }, (_, i) => `p${i}`)
    await store.apply(
      name,
      ids.map((id, i) => at(upsert(id, vector(1, i / 400), { i }), i)),
    )
    await store.apply(
      name,
      ids.flatMap((id, i) => (i % 4 === 0 ? [] : [at(deleteOf(id), 1_000 + i)])),
    )
    for (const place of [vector(1), vector(1, 0.5), vector(1, 1)]) {
      const { hits } = await store.search(name, { vector: place, limit: 100 })
      expect(hits.length).toBe(100)
      expect(hits.every((hit) => Number(hit.id.slice(1)) % 4 === 0)).toBe(true)
    }
  })

  test('deletions are forgotten when they are old enough; points written again stay', async () => {
    const { store, name, other } = await fresh()
    await store.apply(name, [one('a', 10), one('b', 11), at(deleteOf('a'), 20), at(deleteOf('b'), 21)])
    await store.apply(other, [at(deleteOf('a'), 20)])
    await store.apply(name, [one('b', 22)])
    await store.forgetDeletions(3_600_000)
    await store.apply(name, [one('a', 15)])
    expect((await store.get(name, ['a', 'b'])).map(({ id }) => id)).toEqual(['b'])
    await store.forgetDeletions(0)
    expect((await store.get(name, ['a', 'b'])).map(({ id }) => id)).toEqual(['b'])
    await store.apply(name, [one('a', 15), one('b', 12)])
    await store.apply(other, [one('a', 15)])
    expect(await seen(store, name, ['a', 'b'], dimension)).toEqual(only('a', 'b'))
    expect(
      (await store.get(name, ['b']))[0]!.vector[1]! / (await store.get(name, ['b']))[0]!.vector[0]!,
    ).toBeCloseTo(22, 3)
    expect(await store.count(other)).toBe(1)
  })

  test('forgetting while points are deleted and written again loses none of them', async () => {
    const { store, name } = await fresh()
    const ids = Array.from({ length: 40 }, (_, i) => `p${i}`)
    let writing = true
    const forgetting = (async () => {
      while (writing) await store.forgetDeletions(0)
    })()
    for (let round = 0; round < 10; round++) {
      await store.apply(
        name,
        ids.map((id, i) => at(deleteOf(id), round * 100 + i)),
      )
      await store.apply(
        name,
        ids.map((id, i) => one(id, round * 100 + 50 + i)),
      )
      expect((await store.get(name, ids)).length).toBe(40)
    }
    writing = false
    await forgetting
    expect(await store.count(name)).toBe(40)
  })
}

/** Records of a log with several partitions; every point lies in one of them. */
function randomLog(random: () => number, { partitions = 3, records = 120, points = 30, epoch = 1 }) {
  return Array.from({ length: partitions }, (_, partition) => {
    // Partitions are not equally long.
    const base = partition * 1_000
    return Array.from({ length: records }, (_, i): PointOperation => {
      const id = `${partition}-${Math.floor(random() * points)}`
      const position = { epoch, offset: base + i }
      if (random() < 0.3) return { kind: 'delete', id, position }
      const payload = { at: base + i, epoch, all: true }
      return { kind: 'upsert', id, position, vector: Float32Array.of(1, random()), payload }
    })
  })
}

/**
 * Calls of an owner of the partitions: each from somewhere at or before its neighbour's end, cut at random, batches
 * of several partitions joined.
 */
function randomCalls(random: () => number, log: PointOperation[][]): PointOperation[][] {
  const next = log.map((records) => Math.floor(random() * records.length * 0.5))
  const calls: PointOperation[][] = []
  while (log.some((records, partition) => next[partition]! < records.length)) {
    const call = log.flatMap((records, partition) => {
      if (random() < 0.4) return []
      const from = next[partition]!
      const batch = records.slice(from, from + 1 + Math.floor(random() * 25))
      next[partition] = from + batch.length
      // Batches that were not acknowledged come again.
      if (random() < 0.2) next[partition] = Math.max(0, from - Math.floor(random() * 20))
      return batch
    })
    // The order within a call means nothing: the positions decide.
    if (call.length > 0) calls.push(random() < 0.5 ? call : call.toReversed())
  }
  return calls
}

function describeRandomOrder({ fresh, dimension }: VectorsContext): void {
  async function leavesTheLast(seed: number): Promise<void> {
    const random = createRandom(seed)
    const { store, name } = await fresh()
    const log = [...randomLog(random, { epoch: 1 }), ...randomLog(random, { epoch: 2, records: 60 })].map(
      (records) =>
        records.map((one) =>
          one.kind === 'delete' ? one : { ...one, vector: vectorOf(dimension, ...one.vector) },
        ),
    )
    // Each owner begins somewhere in the first half: that is applied before.
    for (const records of log) await store.apply(name, records.slice(0, Math.ceil(records.length / 2)))
    const owners = [randomCalls(random, log), randomCalls(random, log)]
    while (owners.some((calls) => calls.length > 0)) {
      // Now one of them, now both at once: one may pause in the middle of what it sends.
      const calls = owners.flatMap((calls) =>
        random() < 0.6 ? calls.splice(0, 1 + Math.floor(random() * 3)) : [],
      )
      await Promise.all(calls.map((call) => store.apply(name, call)))
    }
    const last = new Map<string, PointOperation>()
    for (const one of log.flat()) last.set(one.id, one)
    const expected = [...last.values()]
      .flatMap((one) => (one.kind === 'delete' ? [] : [[one.id, one.payload.epoch, one.payload.at]]))
      .sort()
    const held = await store.get(name, [...last.keys()])
    expect(held.map(({ id, payload }) => [id, payload.epoch, payload.at]).sort()).toEqual(expected)
    expect(await store.count(name)).toBe(expected.length)
  }

  test('two owners with other cuts, repeats and pauses leave each point at its last record', async () => {
    await fc.assert(fc.asyncProperty(fc.nat(), leavesTheLast), { numRuns: propertyRuns(3) })
  })
}
