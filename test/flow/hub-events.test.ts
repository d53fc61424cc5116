/** Changes of notes and goals as events: live, resumed, cut off, and ended with the caller's right. */

import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { revokeAgentKey } from '#services/access/agent-keys/agent-keys.ts'
import { deleteAgent, updateAgent } from '#services/access/agents/agents.ts'
import { type EventReader, readEvents } from '../support/event-reader.ts'
import { eventually } from '../support/eventually.ts'
import { call as bareCall } from '../support/gateway-call.ts'
import { type HubPlatform, openHubPlatform } from '../support/hub-platform.ts'
import { exchange, trade } from '../support/main-api-platform.ts'

let hub: HubPlatform
let key: string
beforeAll(async () => {
  hub = await openHubPlatform()
  key = await hub.keyFor('member')
})
afterAll(() => hub?.close())

async function follow(path: string, given: { token?: string; lastEventId?: string | undefined } = {}) {
  const reader = await readEvents(`${hub.hubUrl}${path}`, { token: key, ...given })
  onTestFinished(reader.cut)
  return reader
}
const messages = ({ events }: EventReader) => events.filter(({ event }) => event === 'message')
const begun = (reader: EventReader) =>
  eventually('the beginning', async () => reader.events.some(({ event }) => event === 'ready') || undefined)
const note = (fields: object = {}) =>
  hub.call('POST', '/fleet_notes/', { key, body: { subject: 's', body: 'b', ...fields } })
const seen = (reader: EventReader, count: number) =>
  eventually(`${count} events`, async () => messages(reader).length >= count || undefined)

test('a change comes as a list would show it, each kind on its own stream', async () => {
  const [notes, goals] = [await follow('/fleet_notes/events'), await follow('/goals/events/')]
  await Promise.all([begun(notes), begun(goals)])
  expect(notes.headers.get('content-type')).toBe('text/event-stream; charset=utf-8')
  const made = await note({ priority: 'high' })
  const changed = await hub.call('PATCH', `/fleet_notes/${made.json.id}`, {
    key,
    body: { status: 'resolved' },
  })
  const goal = await hub.call('POST', '/goals/', { key, body: { title: 't' } })
  await seen(goals, 1)
  await eventually('the change', async () => messages(notes).at(-1)?.data.status === 'resolved' || undefined)
  expect(messages(notes).at(-1)!.data).toEqual(changed.json)
  if (messages(notes).length > 1) expect(messages(notes)[0]!.data).toEqual(made.json)
  expect(messages(goals).map(({ data }) => data)).toEqual([goal.json])
  for (const { id } of [...notes.events, ...goals.events]) expect(id).toMatch(/^[0-9a-z.]+$/)
})

describe('after a cut', () => {
  test('the stream goes on behind the last event, with the missed events and new ones', async () => {
    const first = await follow('/fleet_notes/events')
    await begun(first)
    await note({ subject: 'before' })
    await seen(first, 1)
    first.cut()
    const missed = await Promise.all(['one', 'two', 'three'].map((subject) => note({ subject })))
    // Published, and read by this instance.
    const watcher = await follow('/fleet_notes/events', { lastEventId: first.lastId() })
    await seen(watcher, 3)
    const second = await follow('/fleet_notes/events', { lastEventId: first.lastId() })
    await seen(second, 3)
    const ids = messages(second).map(({ data }) => data.id)
    expect(ids.sort()).toEqual(missed.map(({ json }) => json.id).sort())
    const next = await note({ subject: 'after' })
    await seen(second, 4)
    expect(messages(second)[3]!.data).toEqual(next.json)
    expect(second.events.every(({ event }) => event === 'message')).toBe(true)
  })

  test('an id of another epoch, or beyond the log, is a reset', async () => {
    const first = await follow('/fleet_notes/events')
    await begun(first)
    const [epoch, ...next] = first.lastId()!.split('.')
    const beyond = [epoch, ...next.map(() => 'zzzz')].join('.')
    for (const lastEventId of [['2', ...next].join('.'), beyond, '1.0']) {
      const reader = await follow('/fleet_notes/events', { lastEventId })
      await eventually('the reset', async () => reader.events.length > 0 || undefined)
      expect(reader.events[0]!.event).toBe('reset')
      expect(reader.lastId()!.split('.')).toHaveLength(next.length + 1)
      await note()
      await seen(reader, 1)
      reader.cut()
    }
  })

  test('an invalid id is refused', async () => {
    for (const id of ['x y', '1.', '-1.2', 'ZZ', 'a'.repeat(9_000)]) {
      const headers = { 'last-event-id': id }
      const answer = await bareCall(hub.hubUrl, '/fleet_notes/events', { key, headers })
      expect([id.slice(0, 9), answer.status, answer.json.code]).toEqual([
        id.slice(0, 9),
        422,
        'validation_failed',
      ])
    }
  })
})

describe('a right that ends', () => {
  const over = async (reader: EventReader) => {
    expect(await reader.over).toBe(true)
    expect(reader.events.at(-1)).toMatchObject({ event: 'end', data: { code: 'unauthorized' } })
  }

  test('ends the stream when the agent is deleted', async () => {
    const reader = await follow('/fleet_notes/events', { token: await hub.keyOf('deleted') })
    await begun(reader)
    await deleteAgent(hub.platform.engines.relational, 'deleted')
    await over(reader)
  })

  test('ends the stream when its access changes', async () => {
    const reader = await follow('/goals/events', { token: await hub.idTokenOf('lowered') })
    await begun(reader)
    await updateAgent(hub.platform.engines.relational, 'lowered', { access: 'viewer' })
    await over(reader)
  })

  test('ends the stream when its agent key is revoked', async () => {
    const { key: agentKey, id } = await hub.issueKey('revoked')
    const main = (method: string, path: string, given: object = {}) =>
      bareCall(hub.baseUrl, path, { method, ...given })
    const token = await exchange(main, await trade(main, agentKey))
    const reader = await follow('/fleet_notes/events', { token })
    await begun(reader)
    await revokeAgentKey(hub.platform.engines.relational, id)
    await over(reader)
  })
})

test('a caller has ten streams, which hold none of its slots', async () => {
  const token = await hub.keyOf('many', { tier: 'agent', concurrent: 2 })
  const readers: EventReader[] = []
  for (let n = 0; n < 10; n++) {
    const reader = await follow('/goals/events', { token })
    await begun(reader)
    readers.push(reader)
  }
  const refused = await bareCall(hub.hubUrl, '/fleet_notes/events', { key: token })
  expect([refused.status, refused.json.code]).toEqual([429, 'too_many_streams'])
  expect((await bareCall(hub.hubUrl, '/goals/', { key: token })).status).toBe(200)
  readers[0]!.cut()
  await eventually('a free place', async () => {
    const reader = await follow('/goals/events', { token })
    return reader.status === 200 || undefined
  })
})

test('a viewer may follow, nobody without a credential', async () => {
  const reader = await follow('/goals/events', { token: await hub.keyFor('viewer') })
  expect(reader.status).toBe(200)
  expect((await bareCall(hub.hubUrl, '/goals/events')).status).toBe(401)
})
