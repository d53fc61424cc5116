/** Points that expire: each read shows when, and none shows them afterwards. */

import { afterAll, beforeAll, expect, test } from 'vitest'
import type { Client } from '#client/client.ts'
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

interface Answered {
  id: string
  expires_at?: string
}

const far = '2999-01-31T12:00:00.000Z'

async function write(collection: string, points: object[]): Promise<void> {
  const written = await call(gateway.vectorUrl, '/v1/vectors/upsert?wait=true', {
    key,
    body: { collection, points },
  })
  expect([written.status, written.json.status]).toEqual([200, 'applied'])
}

/** The points of every read of a collection, by the name of the read. */
async function reads(collection: string, ids: string[]): Promise<Record<string, Answered[]>> {
  const ask = async (path: string, body: object) =>
    (await call(gateway.vectorUrl, `/v1/vectors/${path}`, { key, body })).json as Record<string, Answered[]>
  const search = { collection, vector: axisVector(1, 0.1), limit: 1_000, with_vector: true }
  const batch = await ask('search/batch', { searches: [search] })
  const one = await call(gateway.vectorUrl, `/v1/vectors/get?collection=${collection}&id=${ids[0]}`, { key })
  return {
    one: one.status === 200 ? [one.json as unknown as Answered] : [],
    many: (await ask('get', { collection, ids })).points!,
    scroll: (await ask('scroll', { collection, limit: 1_000 })).points!,
    search: (await ask('search', search)).results!,
    batch: (batch.results as unknown as { results: Answered[] }[])[0]!.results,
  }
}

test('every read shows the expiry of a point that has one, and nothing for one that stays', async () => {
  await write('posts', [
    { id: 'until', vector: axisVector(1), expires_at: '2999-01-31T14:00:00+02:00' },
    { id: 'stays', vector: axisVector(2) },
    { id: 'null', vector: axisVector(3), expires_at: null },
  ])
  for (const [read, points] of Object.entries(await reads('posts', ['until', 'stays', 'null']))) {
    const shown = new Map(points.map((point) => [point.id, point]))
    expect([read, shown.get('until')?.expires_at]).toEqual([read, far])
    if (read === 'one') continue
    expect([read, shown.size]).toEqual([read, 3])
    for (const id of ['stays', 'null']) expect(Object.keys(shown.get(id)!)).not.toContain('expires_at')
  }
})

test('a large answer, which is sent in pieces, shows the expiry of each point', async () => {
  const ids = Array.from({ length: 600 }, (_, n) => `large${n}`)
  const pad = 'x'.repeat(8_000)
  for (let from = 0; from < ids.length; from += 200) {
    const some = ids.slice(from, from + 200)
    await write(
      'almemsha',
      some.map((id) => ({ id, vector: axisVector(1), payload: { pad }, expires_at: far })),
    )
  }
  const { one: _, ...many } = await reads('almemsha', ids)
  const expected = { scroll: 1, many: ids.length, search: ids.length, batch: ids.length }
  for (const [read, points] of Object.entries(many)) {
    expect(points.length).toBeGreaterThanOrEqual(expected[read as keyof typeof expected])
    expect([read, points.filter((point) => point.expires_at !== far).length]).toEqual([read, 0])
  }
})

test('past its expiry no read shows a point, and none counts it', async () => {
  await write('knowledgebase', [
    { id: 'gone', vector: axisVector(1), payload: { set: 'gone' }, expires_at: new Date().toISOString() },
    { id: 'here', vector: axisVector(1), payload: { set: 'gone' } },
  ])
  await expect.poll(() => client.count('knowledgebase')).toBe(1)
  for (const [read, points] of Object.entries(await reads('knowledgebase', ['gone', 'here']))) {
    expect([read, points.map(({ id }) => id)]).toEqual([read, read === 'one' ? [] : ['here']])
  }
  const filter = { must: [{ key: 'set', match: { value: 'gone' } }] }
  expect(await client.count('knowledgebase', { filter })).toBe(1)
  await expect(client.get('knowledgebase', 'gone')).rejects.toMatchObject({ code: 'point_not_found' })
})

test('an upsert without an expiry takes the earlier one away', async () => {
  await write('posts', [{ id: 'again', vector: axisVector(5), expires_at: far }])
  await write('posts', [{ id: 'again', vector: axisVector(5) }])
  const { many } = await reads('posts', ['again'])
  expect(many!.map((point) => [point.id, point.expires_at])).toEqual([['again', undefined]])
})

test('an expiry that is no time is 422, with its path', async () => {
  for (const faulty of ['tomorrow', 17, '2026-02-30T00:00:00Z', '']) {
    const refused = await call(gateway.vectorUrl, '/v1/vectors/upsert', {
      key,
      body: { collection: 'posts', points: [{ id: 'x', vector: axisVector(1), expires_at: faulty }] },
    })
    expect(refused.status).toBe(422)
    expect(refused.json.errors).toEqual([{ path: '/points/0/expires_at', message: expect.any(String) }])
  }
})
