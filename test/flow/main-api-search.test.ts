/** A search of people at the main API: what it leaves out, and which of its hits are weak. */

import { afterAll, beforeAll, expect, test } from 'vitest'
import { eventually } from '../support/eventually.ts'
import { call } from '../support/gateway-call.ts'
import { type HubPlatform, openHubPlatform } from '../support/hub-platform.ts'

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

test('audit notes are left out, and counted out, unless the filter asks for them', async () => {
  const found = await search({ text: 'handshake by key-member: ok', limit: 100 })
  expect(found.results.map(({ id }) => id)).toEqual(['note-1'])
  expect(found.records_scanned).toBe(1)
  const asked = await search({ text: 'handshake by key-member: ok', limit: 100, ...auditNotes })
  expect(asked.results.every(({ id }) => id.startsWith('audit-'))).toBe(true)
  expect(asked.results[0]!.score).toBeGreaterThan(asked.weak_below!)
})

test('a question that a note answers is above the scale of the embedder, one of nothing below', async () => {
  const right = await search({ text: 'Is the lighthouse repaired?' })
  expect(right.results[0]!.score).toBeGreaterThan(right.weak_below!)
  const nothing = await search({ text: 'zebra quantum' })
  expect(nothing.results).toHaveLength(1)
  expect(nothing.results[0]!.score).toBeLessThan(nothing.weak_below!)
})
