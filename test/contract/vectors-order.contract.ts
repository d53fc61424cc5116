/** Promises of every vector engine about scrolling in the order of `updated_at`. */

import { expect, test } from 'vitest'
import type { Payload, ScrollQuery, VectorStore } from '#engines/vectors/port.ts'
import { createRandom, deleteOf } from '#test/support/vectors.ts'
import type { VectorsContext } from './vectors-harness.ts'

const second = (n: number) => new Date(Date.UTC(2026, 0, 1) + n * 1_000).toISOString()

export function describeVectorOrder({ fresh, vector, upsert }: VectorsContext): void {
  test('points come by their times, either way, those without one last', async () => {
    const { store, name } = await fresh()
    const times: Record<string, Payload> = {
      oldest: { updated_at: '1969-07-20' },
      early: { updated_at: '2026-01-01T00:00:00Z' },
      same: { updated_at: '2026-01-01T02:00:00+02:00' },
      micro: { updated_at: '2026-01-01T00:00:00.000001Z' },
      latest: { updated_at: '2300-01-01T00:00:00Z' },
      none: {},
      number: { updated_at: 1 },
      list: { updated_at: ['2026-01-01'] },
    }
    await store.apply(
      name,
      Object.entries(times).map(([id, payload], n) => upsert(id, vector(1, n), payload)),
    )
    const down = await idsInOrder(store, name, { limit: 100, updatedAt: 'desc' })
    expect(down.slice(0, 2)).toEqual(['latest', 'micro'])
    expect(down.slice(2, 4).sort()).toEqual(['early', 'same'])
    expect(down[4]).toBe('oldest')
    expect(down.slice(5).sort()).toEqual(['list', 'none', 'number'])
    const up = await idsInOrder(store, name, { limit: 100, updatedAt: 'asc' })
    expect(up[0]).toBe('oldest')
    expect(up.slice(3, 5)).toEqual(['micro', 'latest'])
    expect(up.slice(5).sort()).toEqual(['list', 'none', 'number'])
    const since = (gte: string) => ({ must: [{ key: 'updated_at', range: { gte } }] })
    expect(await store.count(name, since('2026-01-01'))).toBe(5)
    expect(await store.count(name, since('2026-01-01T00:00:00.000001Z'))).toBe(2)
  })

  test('every point comes exactly once, whatever the page size, among many of one time', async () => {
    const { store, name, place } = await fresh()
    const next = createRandom(7)
    const random = (below: number) => Math.floor(next() * below)
    const points = Array.from({ length: 400 }, (_, n) => {
      const at = random(4) === 0 ? {} : { updated_at: second(random(3) === 0 ? 5 : random(40)) }
      return { id: `p${n}`, payload: { ...at, half: n % 2 } as Payload }
    })
    await store.apply(
      name,
      points.map(({ id, payload }, n) => upsert(id, vector(1, n), payload)),
    )
    const check = async (from: VectorStore) => {
      for (const updatedAt of ['asc', 'desc'] as const) {
        for (const limit of [1, 7, 64, 500]) {
          const sign = updatedAt === 'asc' ? 1 : -1
          const filter = limit === 7 ? { must: [{ key: 'half', match: { value: 1 } }] } : undefined
          const query = { limit, updatedAt, ...(filter && { filter }) }
          const ids = await idsInOrder(from, name, query)
          const expected = points.filter(({ payload }) => !filter || payload.half === 1)
          expect(ids.toSorted()).toEqual(expected.map(({ id }) => id).sort())
          const found = ids.map((id) => points.find((point) => point.id === id)!.payload.updated_at)
          const timed = found.filter((time) => time !== undefined) as string[]
          expect(found.slice(0, timed.length)).toEqual(timed)
          expect(timed).toEqual(timed.toSorted((a, b) => (a < b ? -1 : a > b ? 1 : 0) * sign))
        }
      }
      const bytesMax = 2_000
      const ids = await idsInOrder(from, name, { limit: 500, updatedAt: 'desc', bytesMax })
      expect(new Set(ids).size).toBe(points.length)
      expect(ids).toHaveLength(points.length)
    }
    await check(store)
    // Overwrites and deletions move and remove.
    points.pop()
    points[3]!.payload = { updated_at: second(100), half: 1 }
    points[4]!.payload = { half: 0 }
    await store.apply(name, [
      deleteOf('p399'),
      ...[3, 4].map((n) => upsert(`p${n}`, vector(1, n), points[n]!.payload)),
    ])
    expect((await idsInOrder(store, name, { limit: 1, updatedAt: 'desc' }))[0]).toBe('p3')
    await check(store)
    await store.close()
    await check(await place.open())
  }, 120_000)

  test('an offset that no page gave is refused', async () => {
    const { store, name } = await fresh()
    await store.apply(name, [upsert('a', vector(1), { updated_at: second(1) })])
    for (const offset of ['a', '', '1', 'x/y', '1/x', '-/00000000-0000-4000-8000-000000000000']) {
      await expect(store.scroll(name, { limit: 1, updatedAt: 'desc', offset }), offset).rejects.toMatchObject(
        {
          code: 'validation_failed',
          errors: [{ path: '/offset' }],
        },
      )
    }
  })
}

async function idsInOrder(store: VectorStore, name: string, query: ScrollQuery): Promise<string[]> {
  const ids: string[] = []
  for (let next: string | null | undefined; next !== null; ) {
    const page = await store.scroll(name, { ...query, ...(next === undefined ? {} : { offset: next }) })
    expect(page.points.length).toBeLessThanOrEqual(query.limit)
    expect(page.points.every(({ place }) => place !== undefined)).toBe(true)
    ids.push(...page.points.map(({ id }) => id))
    next = page.next
  }
  return ids
}
