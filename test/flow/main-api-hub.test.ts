/** Notes and goals at the main API: the hub's rules, in the envelope, with who did what, and by the client. */

import { afterAll, beforeAll, expect, test } from 'vitest'
import { createClient, createMainApi, type Note } from '#client/client.ts'
import { type ListedAction, listAdminActions } from '#services/access/admin-audit/admin-audit.ts'
import type { Access } from '#services/access/agents/agents.ts'
import { readEvents } from '../support/event-reader.ts'
import { eventually } from '../support/eventually.ts'
import { call as bareCall } from '../support/gateway-call.ts'
import { type HubPlatform, openHubPlatform } from '../support/hub-platform.ts'

let hub: HubPlatform
beforeAll(async () => {
  hub = await openHubPlatform()
})
afterAll(() => hub?.close())

interface Given {
  body?: unknown
  headers?: Record<string, string>
}

async function as(access: Access, method: string, path: string, given: Given = {}) {
  const key = await hub.tokenFor(access)
  const answer = await bareCall(hub.baseUrl, `/api/v1${path}`, { method, key, ...given })
  // biome-ignore lint/suspicious/noExplicitAny: of many shapes, each checked where it is read.
  return { ...answer, data: answer.json.data as any, code: answer.json.code }
}
const member = (method: string, path: string, given?: Given) => as('member', method, path, given)
const note = { subject: 'Lamp', body: 'It is broken.' }

/** The audit records of a note or goal, the newest first. */
async function actionsOf(target: string): Promise<ListedAction[]> {
  const { actions } = await listAdminActions(hub.platform.engines.relational, { limit: 20, target })
  return actions
}

test('a note is made, shown, changed and listed as at the hub, in the envelope', async () => {
  const made = await member('POST', '/fleet_notes', { body: note })
  expect([made.status, made.json.ok, made.headers.get('etag')]).toEqual([201, true, '"1"'])
  expect(made.headers.get('location')).toBe(`/api/v1/fleet_notes/${made.data.id}`)
  const key = await hub.keyFor('viewer')
  expect((await hub.call('GET', `/fleet_notes/${made.data.id}`, { key })).json).toEqual(made.data)
  const changed = await member('PATCH', `/fleet_notes/${made.data.id}`, {
    body: { status: 'resolved' },
    headers: { 'if-match': '"1"' },
  })
  expect([changed.status, changed.data.status, changed.headers.get('etag')]).toEqual([200, 'resolved', '"2"'])
  expect((await as('viewer', 'GET', `/fleet_notes/${made.data.id}`)).data).toEqual(changed.data)
  const reply = await member('POST', '/fleet_notes', { body: { ...note, parent_id: made.data.id } })
  const thread = await as('viewer', 'GET', `/fleet_notes/${reply.data.id}/thread`)
  expect(thread.data).toEqual([changed.data, reply.data])
  const page = await as('viewer', 'GET', `/fleet_notes?thread_id=${made.data.thread_id}&limit=1`)
  expect(page.data).toEqual([reply.data])
  const next = /^<(\/api\/v1\/fleet_notes\?.*)>; rel="next"$/.exec(page.headers.get('link') ?? '')![1]!
  expect((await as('viewer', 'GET', next.slice('/api/v1'.length))).data).toEqual([changed.data])
})

test('roles and rules bind here, too', async () => {
  const goal = await member('POST', '/goals', { body: { title: 't' } })
  const path = `/goals/${goal.data.id}`
  const changing = { body: { status: 'active' } }
  expect((await as('viewer', 'POST', '/goals', { body: { title: 't' } })).code).toBe('forbidden')
  expect((await as('viewer', 'PATCH', path, changing)).code).toBe('forbidden')
  expect((await as('admin', 'PATCH', path, changing)).data.status).toBe('active')
  expect((await member('PATCH', path, { body: { status: 'pending' } })).code).toBe('invalid_transition')
  const stale = await member('PATCH', path, { ...changing, headers: { 'if-match': '"1"' } })
  expect([stale.status, stale.code]).toEqual([412, 'precondition_failed'])
  expect((await member('POST', '/goals', { body: { title: 't', more: 1 } })).status).toBe(422)
  expect((await member('GET', '/goals/999999')).code).toBe('not_found')
  const key = await hub.keyFor('member')
  expect((await bareCall(hub.baseUrl, '/api/v1/goals', { key })).status).toBe(401)
})

test('creations and changes are recorded with their callers, once, and refusals too', async () => {
  const headers = { 'idempotency-key': 'once', 'x-request-id': 'making' }
  const made = await member('POST', '/fleet_notes', { body: note, headers })
  const again = await member('POST', '/fleet_notes', { body: note, headers })
  expect([again.status, again.data]).toEqual([201, made.data])
  const path = `/fleet_notes/${made.data.id}`
  await as('admin', 'PATCH', path, { body: { priority: 'high', body: 'Repaired.' } })
  await member('PATCH', path, { body: { status: 'archived' } })
  await member('PATCH', path, { body: { status: 'resolved' } })
  const actions = (await actionsOf(`note/${made.data.id}`)).toReversed()
  expect(actions.map(({ action, outcome, reason }) => [action, outcome, reason])).toEqual([
    ['note.create', 'done', null],
    ['note.change', 'done', null],
    ['note.change', 'done', null],
    ['note.change', 'refused', 'invalid_transition'],
  ])
  expect(actions[0]).toMatchObject({
    request_id: 'making',
    before: null,
    after: { subject: 'Lamp', version: 1 },
  })
  expect(actions[1]).toMatchObject({
    before: { priority: 'normal', version: 1 },
    after: { priority: 'high', version: 2 },
  })
  expect(new Set(actions.map(({ actor }) => actor.id)).size).toBe(2)
  expect(JSON.stringify(actions)).not.toContain('Repaired')
})

test('changes come as events', async () => {
  const token = await hub.tokenFor('viewer')
  const reader = await readEvents(`${hub.baseUrl}/api/v1/fleet_notes/events`, { token })
  await eventually('the beginning', async () => reader.events[0]?.event === 'ready' || undefined)
  const made = await member('POST', '/fleet_notes', { body: note })
  await eventually('the note', async () => reader.events.at(-1)?.data.id === made.data.id || undefined)
  expect(reader.events.at(-1)).toMatchObject({ event: 'message', data: made.data })
  reader.cut()
})

test('the state of the platform counts them', async () => {
  await member('POST', '/goals', { body: { title: 'counted' } })
  const { rows } = await hub.platform.engines.relational.query<{ notes: number; pending: number }>(
    `select (select count(*) from platform.notes) as notes,
            (select count(*) from platform.goals where status = 'pending') as pending`,
  )
  // Read at most once a second.
  await eventually('the counts', async () => {
    const { data } = await as('viewer', 'GET', '/brain/state')
    return (data.notes === rows[0]!.notes && data.goals.pending === rows[0]!.pending) || undefined
  })
})

test('the client has the same methods over the hub and over the main API', async () => {
  const { privateKeyPem } = await hub.provision({ agentId: 'reader', access: 'member' })
  const { key: agentKey } = await hub.issueKey('reader')
  const client = createClient({
    vectorUrl: hub.vectorUrl,
    hubUrl: hub.hubUrl,
    agentId: 'reader',
    privateKeyPem,
  })
  const api = createMainApi({ baseUrl: hub.baseUrl, agentKey })
  const stop = new AbortController()
  const seen: Note[] = []
  const begun = Promise.withResolvers<void>()
  const following = (async () => {
    for await (const change of client.notes.events({ signal: stop.signal })) {
      if (change.type === 'change') seen.push(change.record)
      if (change.type === 'ready') begun.resolve()
    }
  })()
  await begun.promise
  for (const { notes, goals } of [client, api]) {
    const made = await notes.create({ subject: 's', body: 'b' }, { idempotencyKey: `k${seen.length}` })
    expect((await notes.update(made.id, { status: 'archived' }, { ifMatch: made.etag })).etag).toBe('"2"')
    await expect(notes.update(made.id, {}, { ifMatch: made.etag })).rejects.toMatchObject({
      code: 'precondition_failed',
    })
    expect((await notes.thread(made.id)).records.map(({ id }) => id)).toEqual([made.id])
    await goals.create({ title: 'of the reader' })
    const ids: number[] = []
    for await (const { id } of notes.all({ author: 'reader', limit: 1 })) ids.push(id)
    expect(ids[0]).toBe(made.id)
    await eventually('the change', async () => seen.some(({ id }) => id === made.id) || undefined)
  }
  expect((await api.goals.list({ author: 'reader' })).records).toHaveLength(2)
  stop.abort()
  await following
  await Promise.all([client.close(), api.close()])
})
