/** Requests of the Qdrant driver about points that expire. */

import { pino } from 'pino'
import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import type { PointOperation, VectorStore } from '#engines/vectors/port.ts'
import { openQdrantVectors } from '#engines/vectors/qdrant.ts'
import { type FakeQdrant, openFakeQdrant } from '#test/support/qdrant-fake.ts'
import { deleteOf, nextPosition, upsertOf, vectorOf } from '#test/support/vectors.ts'

const dimension = 16
const own = 'own~0123456789'
const vector = vectorOf(dimension, 1)
let fake: FakeQdrant
let store: VectorStore

beforeEach(async () => {
  fake = await openFakeQdrant()
  const log = pino({ level: 'silent' })
  store = await openQdrantVectors({ url: fake.url, collections: ['notes'], dimension, log })
  await store.ping()
})
afterEach(async () => {
  vi.useRealTimers()
  await store.close()
  await fake.close()
  expect(fake.faults).toEqual([])
})

const sent = (part: string) => fake.requests.filter(({ url }) => url.includes(part)).map(({ body }) => body!)

function expiring(id: string, expiresAt: number): PointOperation {
  return { kind: 'upsert', id, position: nextPosition(), vector, payload: {}, expiresAt }
}

test('every read leaves out points that have expired when it is sent, with and without a filter', async () => {
  await store.apply('notes', [upsertOf('a', vector)])
  const without = { key: 'k', match: { value: 1 } }
  vi.useFakeTimers({ now: 5_000, toFake: ['Date'] })
  for (const filter of [undefined, { must_not: [without] }]) {
    const rest = filter ? { filter } : {}
    await store.search('notes', { vector, limit: 3, ...rest })
    await store.scroll('notes', { limit: 3, ...rest })
    await store.scroll('notes', { limit: 3, updatedAt: 'asc', ...rest })
    await store.count('notes', filter)
    await store.embedders('notes', filter)
  }
  await store.stats()
  const reads = ['query', 'scroll', 'count', 'facet'].map(sent)
  expect(reads.every(({ length }) => length > 0)).toBe(true)
  for (const { filter } of reads.flat()) {
    // A count of points of an earlier release, which have no expiry.
    if (JSON.stringify(filter).includes('"shape"')) continue
    expect(filter!.must_not![0]).toEqual({ key: 'expiresAt', range: { lte: 5_000 } })
  }
  expect(sent('query').map(({ filter }) => filter!.must_not!.length)).toEqual([1, 2])
})

test('an expiry is stored with the position; an upsert without one and a delete leave none', async () => {
  const stored = () => sent('points?wait=true').at(-1)!.points[0]!.payload
  await store.apply('notes', [expiring('a', 9e12)])
  expect(stored()).toMatchObject({ id: 'a', expiresAt: 9e12 })
  await store.apply('notes', [upsertOf('a', vector)])
  expect(stored()).not.toHaveProperty('expiresAt')
  await store.apply('notes', [deleteOf('a')])
  expect(stored()).not.toHaveProperty('expiresAt')
})

test('held reads 64 points a request, and gives them in the order of the ids', async () => {
  const ids = Array.from({ length: 150 }, (_, n) => `p${n}`)
  await store.apply(
    'notes',
    ids.map((id) => upsertOf(id, vector)),
  )
  fake.requests.length = 0
  const held = await store.held('notes', ids)
  expect(held.map(({ id }) => id)).toEqual(ids)
  expect(fake.requests.map(({ body }) => body!.ids.length)).toEqual([64, 64, 22])
})

test('a point that expires while its answer is on the way is not given', async () => {
  await store.apply('notes', [expiring('a', 9e12)])
  vi.useFakeTimers({ now: 9e12 - 1, toFake: ['Date'] })
  expect((await store.get('notes', ['a'])).length).toBe(1)
  const asked = [store.get('notes', ['a']), store.held('notes', ['a'])] as const
  vi.setSystemTime(9e12)
  const [got, held] = await Promise.all(asked)
  expect(got).toEqual([])
  expect(held).toEqual([{ id: 'a', position: expect.anything() }])
})

test('a generation that is not there is a conflict, a collection that it lacks is empty', async () => {
  const conflict = { code: 'conflict' }
  await expect(store.held('notes', ['a'], { generation: 2 })).rejects.toMatchObject(conflict)
  await expect(store.held(own, ['a'], { generation: 2 })).rejects.toMatchObject(conflict)
  await store.createGeneration(2)
  for (const name of ['notes', own]) {
    expect(await store.held(name, ['a'], { generation: 2 })).toEqual([])
    expect(await store.held(name, ['a'])).toEqual([])
    expect(await store.expired(name, 5)).toEqual([])
  }
  await expect(store.held('nothing', ['a'])).rejects.toMatchObject({ code: 'collection_not_found' })
})
