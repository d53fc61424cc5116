/** Notes of the hub are found by vector search: soon, as they are now, and not once they are archived. */

import { afterAll, beforeAll, expect, test } from 'vitest'
import { eventually } from '../support/eventually.ts'
import { call } from '../support/gateway-call.ts'
import { type HubPlatform, openHubPlatform } from '../support/hub-platform.ts'

let hub: HubPlatform
let key: string
beforeAll(async () => {
  hub = await openHubPlatform()
  key = await hub.keyFor('member')
})
afterAll(() => hub?.close())

interface Hit {
  id: string
  payload: Record<string, unknown>
}

/** The notes nearest to a text; audit notes are left out. */
async function found(text: string): Promise<Hit[]> {
  const embedded = await call(hub.vectorUrl, '/v1/embeddings', { key, body: { input: text } })
  const [{ embedding }] = embedded.json.data as [{ embedding: number[] }]
  const filter = { must: [{ key: 'tags', match: { value: 'note' } }] }
  const body = {
    collection: 'fleet_notes',
    vector: embedded.status === 200 ? embedding : [],
    limit: 3,
    filter,
  }
  const answer = await call(hub.vectorUrl, '/v1/vectors/search', { key, body })
  return answer.json.results as Hit[]
}
const ofNote = (id: unknown, text: string) =>
  found(text).then((hits) => hits.find((hit) => hit.id === `note-${id}`))
const post = (body: object) => hub.call('POST', '/fleet_notes/', { key, body })
const patch = (id: unknown, body: object) => hub.call('PATCH', `/fleet_notes/${id}`, { key, body })

test('a note is found soon, with what its point holds', async () => {
  // The first one also waits for its readers to begin.
  const first = await post({ subject: 'warm up', body: 'engines' })
  await eventually('the first note', () => ofNote(first.json.id, 'warm up engines'))
  for (let n = 0; n < 5; n++) {
    const { json } = await post({ subject: `Reactor ${n}`, body: 'coolant pressure falls', priority: 'high' })
    const hit = await eventually('the note', () => ofNote(json.id, `Reactor ${n} coolant pressure falls`))
    expect(hit.payload).toEqual({
      title: `Reactor ${n}`,
      status: 'active',
      tags: ['note', 'high', 'key-member'],
      updated_at: json.updated_at,
      thread_id: json.thread_id,
    })
  }
})

test('a hostile text is found by itself, and its point gives the subject as it was sent', async () => {
  const subject = `"'; drop table notes; -- <script>\u202e ${'🐋'.repeat(40)} \u0001 __proto__`
  const body = 'x'.repeat(200 * 1024)
  const { json } = await post({ subject, body })
  const hit = await eventually('the note', () => ofNote(json.id, `${subject} ${'x'.repeat(8_000)}`))
  expect(hit.payload.title).toBe(subject)
})

test('a changed note is found by its new text, an archived one not at all, one that is active again is', async () => {
  const { json } = await post({ subject: 'Lighthouse', body: 'the lamp is broken' })
  await eventually('the note', () => ofNote(json.id, 'Lighthouse the lamp is broken'))
  await patch(json.id, { body: 'foghorn repaired', priority: 'urgent', status: 'resolved' })
  const changed = await eventually('the change', async () => {
    const hit = await ofNote(json.id, 'foghorn repaired')
    return hit?.payload.status === 'resolved' ? hit : undefined
  })
  expect(changed.payload.tags).toEqual(['note', 'urgent', 'key-member'])
  await patch(json.id, { status: 'archived' })
  await eventually('the archive', async () => (await ofNote(json.id, 'Lighthouse foghorn')) === undefined)
  await patch(json.id, { status: 'active' })
  await eventually('its return', () => ofNote(json.id, 'Lighthouse foghorn repaired'))
})

test('agents cannot write the points of notes', async () => {
  const body = { collection: 'fleet_notes', ids: ['note-1'] }
  const answer = await call(hub.vectorUrl, '/v1/vectors/delete', { key, method: 'DELETE', body })
  expect([answer.status, answer.json.code]).toEqual([403, 'reserved_id'])
})
