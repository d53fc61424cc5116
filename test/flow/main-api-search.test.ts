/** A search of people at the main API: what it leaves out, and which of its hits are weak. */

import { afterAll, beforeAll, expect, test } from 'vitest'
import { eventually } from '../support/eventually.ts'
import { call } from '../support/gateway-call.ts'
import { type HubPlatform, openHubPlatform } from '../support/hub-platform.ts'
import { axisVector } from '../support/points.ts'

let hub: HubPlatform
beforeAll(async () => {
  hub = await openHubPlatform()
  const key = await hub.keyFor('member')
  const note = { subject: 'The lighthouse is repaired', body: 'Its lamp burns again since Monday.' }
  await hub.call('POST', '/fleet_notes/', { key, body: note })
  await eventually('the note and audit notes', async () => {
    const { results } = await search({ text: 'lighthouse' })
    return results.length === 1 && (await search({ text: 'handshake', ...auditNotes })).results.length > 1
  })
})
afterAll(() => hub?.close())

interface Found {
  results: { id: string; score: number; payload: { tags: string[] } }[]
  records_scanned: number
  weak_below?: number
}
const auditNotes = { filter: { must: [{ key: 'tags', match: { value: 'auth' } }] } }

async function search(body: object): Promise<Found> {
  const key = await hub.tokenFor('viewer')
  const answer = await call(hub.baseUrl, '/api/v1/collections/fleet_notes/search', { key, body })
  expect(answer.status).toBe(200)
  return answer.json.data as unknown as Found
}

interface Listed {
  points: { id: string; payload: object; expires_at?: string }[]
  next_offset: string | null
}

async function list(collection: string, body: object): Promise<Listed> {
  const key = await hub.tokenFor('viewer')
  const answer = await call(hub.baseUrl, `/api/v1/collections/${collection}/points`, { key, body })
  expect(answer.status).toBe(200)
  return answer.json.data as unknown as Listed
}

test('audit notes are left out, and counted out, unless the filter asks for them', async () => {
  const found = await search({ text: 'handshake by key-member: ok', limit: 100 })
  expect(found.results.map(({ id }) => id)).toEqual(['note-1'])
  expect(found.records_scanned).toBe(1)
  const asked = await search({ text: 'handshake by key-member: ok', limit: 100, ...auditNotes })
  expect(asked.results.every(({ id }) => id.startsWith('audit-'))).toBe(true)
  expect(asked.results[0]!.score).toBeGreaterThan(asked.weak_below!)
})

test('points are listed page by page, by id and by their last update, with their expiry', async () => {
  const points = ['03', '01', '02'].map((day, n) => ({
    id: `p${n}`,
    vector: axisVector(n),
    payload: { updated_at: `2026-01-${day}T00:00:00Z`, n },
    ...(n === 1 ? { expires_at: '2999-01-31T12:00:00Z' } : {}),
  }))
  const key = await hub.keyFor('member')
  await call(hub.vectorUrl, '/v1/vectors/upsert?wait=true', { key, body: { collection: 'posts', points } })
  const idsOf = (page: Listed) => page.points.map(({ id }) => id)
  const first = await list('posts', { limit: 2 })
  expect(first.points).toEqual([
    { id: 'p0', payload: points[0]!.payload },
    { id: 'p1', payload: points[1]!.payload, expires_at: '2999-01-31T12:00:00.000Z' },
  ])
  const rest = await list('posts', { limit: 2, offset: first.next_offset })
  expect([idsOf(rest), rest.next_offset]).toEqual([['p2'], null])
  const ordered = (direction: string) => list('posts', { order_by: { key: 'updated_at', direction } })
  expect(idsOf(await ordered('asc'))).toEqual(['p1', 'p2', 'p0'])
  expect(idsOf(await ordered('desc'))).toEqual(['p0', 'p2', 'p1'])
  const filter = { must: [{ key: 'n', range: { gt: 0 } }] }
  expect(idsOf(await list('posts', { filter }))).toEqual(['p1', 'p2'])
  expect(idsOf(await list('fleet_notes', {}))).toEqual(['note-1'])
  expect(idsOf(await list('fleet_notes', auditNotes))).not.toContain('note-1')
})

test('a question that a note answers is above the scale of the embedder, one of nothing below', async () => {
  const right = await search({ text: 'Is the lighthouse repaired?' })
  expect(right.results[0]!.score).toBeGreaterThan(right.weak_below!)
  const nothing = await search({ text: 'zebra quantum' })
  expect(nothing.results).toHaveLength(1)
  expect(nothing.results[0]!.score).toBeLessThan(nothing.weak_below!)
})
