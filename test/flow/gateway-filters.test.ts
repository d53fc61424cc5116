/** Filters through the gateway, deleting by one, and pages in the order of time. */

import { afterAll, beforeAll, expect, test } from 'vitest'
import type { Client, Filter } from '#client/client.ts'
import { call } from '../support/gateway-call.ts'
import { type GatewayPlatform, openGatewayPlatform } from '../support/gateway-platform.ts'
import { axisVector } from '../support/points.ts'

let gateway: GatewayPlatform
let client: Client
let key: string
beforeAll(async () => {
  gateway = await openGatewayPlatform()
  client = await gateway.clientOf('whale')
  key = await client.apiKey()
})
afterAll(() => gateway.close())

const bare = (path: string, given: Parameters<typeof call>[2] = {}) =>
  call(gateway.vectorUrl, path, { key, ...given })

/** The path of the first fault. */
const faultPath = ({ json }: { json: Record<string, unknown> }) =>
  (json.errors as { path: string }[])[0]!.path

const day = (n: number) => new Date(Date.UTC(2026, 0, n)).toISOString()

test('search, scroll, count and batches take filters of every kind', async () => {
  const points = Array.from({ length: 6 }, (_, n) => ({
    id: `f${n}`,
    vector: axisVector(n),
    payload: { n, title: n % 2 === 0 ? 'The Café at the pier' : 'Lighthouse', updated_at: day(n + 1) },
  }))
  await client.upsert('posts', points, { wait: true })
  const filter: Filter = {
    must: [{ key: 'updated_at', range: { gte: day(2) } }],
    should: [
      { key: 'title', match: { text: 'cafe' } },
      { must: [{ key: 'n', range: { gt: 3 } }, { is_empty: { key: 'closed_by' } }] },
    ],
    must_not: [{ key: 'n', match: { any: [4, 9] } }],
  }
  expect(await client.count('posts', { filter })).toBe(2)
  const { points: scrolled } = await client.scroll({ collection: 'posts', filter })
  expect(scrolled.map(({ id }) => id)).toEqual(['f2', 'f5'])
  const search = { collection: 'posts', vector: axisVector(5), filter }
  expect((await client.search(search)).results.map(({ id }) => id)).toEqual(['f5', 'f2'])
  const [first, second] = await client.searchBatch([search, { ...search, filter: {} }])
  expect([first!.results.length, second!.results.length]).toEqual([2, 6])
})

test('faults of a filter are named where they are, on every route', async () => {
  const filter = { must: [{ key: 'n', range: { gt: 'yesterday' } }] }
  const body = { collection: 'posts', filter }
  const answers = [
    await bare('/v1/vectors/search', { body: { ...body, vector: axisVector(1) } }),
    await bare('/v1/vectors/scroll', { body }),
    await bare('/v1/vectors/count', { body }),
    await bare(`/v1/vectors/count?collection=posts&filter=${encodeURIComponent(JSON.stringify(filter))}`),
    await bare('/v1/vectors/delete', { method: 'DELETE', body }),
  ]
  for (const { status, json } of answers) {
    expect([status, json.code]).toEqual([422, 'validation_failed'])
    expect(json.errors).toEqual([
      {
        path: '/filter/must/0/range/gt',
        message: 'a number, or a time such as 2026-01-31T12:00:00Z ("yesterday" was sent)',
      },
    ])
  }
  const batch = {
    searches: [
      { collection: 'posts', text: 'x' },
      { ...body, text: 'x' },
    ],
  }
  const refused = await bare('/v1/vectors/search/batch', { body: batch })
  expect([refused.status, faultPath(refused)]).toEqual([422, '/searches/1/filter/must/0/range/gt'])
})

test('a filter deletes the points that match, and says how many and whether there are more', async () => {
  const points = Array.from({ length: 12 }, (_, n) => ({
    id: `d${n}`,
    vector: axisVector(n),
    payload: { set: 'deleted', n },
  }))
  const { operation_id: after } = await client.upsert('almemsha', points)
  const filter: Filter = {
    must: [
      { key: 'set', match: { value: 'deleted' } },
      { key: 'n', range: { lt: 10 } },
    ],
  }
  const deleted = await client.deleteWhere('almemsha', filter, { wait: true, after })
  expect(deleted).toMatchObject({
    status: 'applied',
    collection: 'almemsha',
    points: 10,
    deleted: 10,
    more: false,
  })
  const { points: left } = await client.scroll({ collection: 'almemsha' })
  expect(left.map(({ id }) => id)).toEqual(['d10', 'd11'])
  // Written again behind the deletion, one of them stays.
  await client.upsert('almemsha', [points[3]!], { wait: true })
  expect(await client.count('almemsha')).toBe(3)
  const none = await client.deleteWhere('almemsha', { must: [{ is_empty: { key: 'set' } }] }, { wait: true })
  expect(none).toMatchObject({ status: 'applied', points: 0, deleted: 0, more: false })
})

test('a deletion needs either ids or a filter with conditions, and leaves the notes of the platform', async () => {
  const remove = (body: object) => bare('/v1/vectors/delete', { method: 'DELETE', body })
  for (const body of [{}, { ids: ['a'], filter: { must: [] } }, { filter: null }]) {
    const refused = await remove({ collection: 'posts', ...body })
    expect([refused.status, faultPath(refused)]).toEqual([422, ''])
  }
  for (const filter of [{ must: [] }, { should: [{ must: [{ must_not: [] }] }] }]) {
    const empty = await remove({ collection: 'posts', filter })
    expect([empty.status, faultPath(empty)]).toEqual([422, '/filter'])
  }
  await client.upsert('fleet_notes', [{ id: 'own', vector: axisVector(1), payload: { tags: ['auth'] } }], {
    wait: true,
  })
  const filter: Filter = { must: [{ key: 'tags', match: { any: ['auth', 'vector'] } }] }
  const before = await client.count('fleet_notes', { filter })
  expect(await client.deleteWhere('fleet_notes', filter, { wait: true })).toMatchObject({
    deleted: 1,
    more: false,
  })
  expect(await client.count('fleet_notes', { filter })).toBeGreaterThanOrEqual(before - 1)
})

test('more than ten thousand points are deleted in several calls', async () => {
  await client.memory.collections.create('many')
  const total = 10_500
  for (let from = 0; from < total; from += 500) {
    const points = Array.from({ length: 500 }, (_, n) => ({
      id: `m${from + n}`,
      vector: axisVector(n),
      payload: { set: 'many' },
    }))
    await client.memory.remember('many', points)
  }
  const filter: Filter = { must: [{ key: 'set', match: { value: 'many' } }] }
  const first = await client.deleteWhere('many', filter)
  expect(first).toMatchObject({ deleted: 10_000, more: true })
  const second = await client.deleteWhere('many', filter, { after: first.operation_id, wait: true })
  expect(second).toMatchObject({ deleted: 500, more: false })
  expect(await client.count('many', { after: second.operation_id })).toBe(0)
}, 180_000)

test('pages in the order of time, the newest first', async () => {
  await client.memory.collections.create('diary')
  const points = Array.from({ length: 25 }, (_, n) => ({
    id: `e${n}`,
    vector: axisVector(n),
    payload: n === 7 ? {} : { updated_at: day((n * 7) % 25), big: 'x'.repeat(50) },
  }))
  await client.upsert('diary', points, { wait: true })
  const ids: string[] = []
  const orderBy = { key: 'updated_at', direction: 'desc' } as const
  for await (const { id } of client.scrollAll({ collection: 'diary', limit: 4, orderBy })) ids.push(id)
  const expected = points
    .filter(({ payload }) => payload.updated_at)
    .toSorted((a, b) => (a.payload.updated_at! < b.payload.updated_at! ? 1 : -1))
  expect(ids).toEqual([...expected.map(({ id }) => id), 'e7'])
  const page = await bare('/v1/vectors/scroll', {
    body: { collection: 'diary', order_by: { key: 'updated_at' } },
  })
  expect((page.json.points as object[])[0]).toEqual({
    id: expected.at(-1)!.id,
    payload: expected.at(-1)!.payload,
  })
  const other = await bare('/v1/vectors/scroll', {
    body: { collection: 'diary', order_by: { key: 'title' } },
  })
  expect([other.status, faultPath(other)]).toEqual([422, '/order_by/key'])
  const lost = await bare('/v1/vectors/scroll', {
    body: { collection: 'diary', order_by: orderBy, offset: 'e1' },
  })
  expect([lost.status, faultPath(lost)]).toEqual([422, '/offset'])
})

test('indexes of keys are made by members, once for a key, at most 32 of a collection', async () => {
  const { collections } = client.memory
  await collections.create('indexed')
  await collections.index('indexed', 'n', 'number')
  const path = '/v1/collections/indexed/indexes'
  const again = await bare(path, { body: { key: 'n', type: 'number' } })
  expect([again.status, again.json]).toEqual([200, { collection: 'indexed', key: 'n', type: 'number' }])
  const other = await bare(path, { body: { key: 'n', type: 'time' } })
  expect([other.status, other.json.code]).toEqual([409, 'conflict'])
  for (let n = 1; n < 32; n++) await collections.index('indexed', `source.k${n}`, 'keyword')
  expect((await bare(path, { body: { key: 'more', type: 'text' } })).status).toBe(409)
  const faults: [object, string][] = [
    [{ key: '', type: 'text' }, '/key'],
    [{ key: 'a\0', type: 'text' }, '/key'],
    [{ key: 'a', type: 'geo' }, '/type'],
    [{ type: 'text' }, '/key'],
  ]
  for (const [body, at] of faults) {
    const refused = await bare(path, { body })
    expect([refused.status, faultPath(refused)], JSON.stringify(body)).toEqual([422, at])
  }
  const missing = await bare('/v1/collections/nothing/indexes', { body: { key: 'a', type: 'text' } })
  expect([missing.status, missing.json.code]).toEqual([404, 'collection_not_found'])
  await client.upsert('indexed', [{ id: 'a', vector: axisVector(1), payload: { n: 5 } }], { wait: true })
  expect(await client.count('indexed', { filter: { must: [{ key: 'n', range: { gt: 4 } }] } })).toBe(1)
})
