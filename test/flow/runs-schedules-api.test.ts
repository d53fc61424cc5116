/** /schedules of the run gateway and of the main API, the client and the command line: whose, how they are checked, and runs that follow. */

import { afterAll, beforeAll, expect, test } from 'vitest'
import { type Client, createClient, type Schedule } from '#client/client.ts'
import { eventually } from '../support/eventually.ts'
import { openRunsPlatform, type RunsPlatform } from '../support/runs-platform.ts'

let platform: RunsPlatform
let client: Client

beforeAll(async () => {
  platform = await openRunsPlatform()
  const { privateKeyPem } = await platform.provision({ agentId: 'planner' })
  const { vectorUrl, runUrl } = platform
  client = createClient({ vectorUrl, runUrl, agentId: 'planner', privateKeyPem })
})
afterAll(async () => {
  await client?.close()
  await platform?.close()
})

const daily = { agent: 'whale', message: 'Any news?', cron: '0 7 * * *' }
const create = (body: object, given: { key?: string; headers?: Record<string, string> } = {}) =>
  platform.call('POST', '/schedules', { body, ...given })

test('a schedule is made, shown, changed, paused, resumed and deleted', async () => {
  const made = await create({ ...daily, timezone: 'Europe/Berlin', name: 'news' })
  expect([made.status, made.headers.get('location')]).toEqual([201, `/schedules/${made.json.id}`])
  expect(made.json).toMatchObject({
    id: expect.stringMatching(/^sched_[0-9a-f]{32}$/),
    agent: 'WHALE',
    dispatch: false,
    message: 'Any news?',
    parts: [{ text: 'Any news?' }],
    cron: '0 7 * * *',
    timezone: 'Europe/Berlin',
    at: null,
    session: 'new',
    missed: 'skip',
    paused: false,
    pausedReason: null,
    lastAt: null,
    lastRunId: null,
    failures: 0,
    owner: 'key-member',
  })
  const path = `/schedules/${made.json.id}`
  const change = async (body: object) => (await platform.call('PATCH', path, { body })).json
  expect(await change({ paused: true })).toMatchObject({ paused: true, nextAt: null })
  expect(await change({ paused: false })).toMatchObject({ paused: false, nextAt: made.json.nextAt })
  const at = new Date(Date.now() + 3_600_000).toISOString()
  expect(await change({ at, cron: null, session: 'news', dispatch: true })).toMatchObject({
    agent: null,
    dispatch: true,
    cron: null,
    at,
    nextAt: at,
    session: 'news',
    name: 'news',
  })
  expect((await platform.call('GET', path)).json).toMatchObject({ dispatch: true })
  expect((await platform.call('GET', '/schedules')).json).toMatchObject([{ id: made.json.id }])
  expect((await platform.call('DELETE', path)).json).toEqual({ id: made.json.id, deleted: true })
  expect((await platform.call('GET', path)).status).toBe(404)
  expect((await platform.call('DELETE', path)).json).toMatchObject({ code: 'schedule_not_found' })
})

test.each([
  ['nobody', { agent: undefined }, '/agent'],
  ['an agent and all', { dispatch: true }, '/dispatch'],
  ['no message', { message: undefined }, '/message'],
  ['two messages', { parts: [{ text: 'a' }] }, '/parts'],
  ['an empty message', { message: ' ' }, '/message'],
  ['parts that are none', { message: undefined, parts: [{ what: 1 }] }, '/parts/0'],
  ['no time', { cron: undefined }, '/cron'],
  ['two times', { at: '2099-01-01T00:00:00Z' }, '/at'],
  ['six fields', { cron: '0 0 7 * * *' }, '/cron'],
  ['a day that never comes', { cron: '0 0 30 2 *' }, '/cron'],
  ['a zone that is none', { timezone: 'Mars/Base' }, '/timezone'],
  ['a time that is over', { cron: undefined, at: '2020-01-01T00:00:00Z' }, '/at'],
  [
    'an end before the first time',
    { endsAt: new Date(Date.now() + 1_000).toISOString(), cron: '0 0 29 2 *' },
    '/endsAt',
  ],
  ['a time without a zone', { cron: undefined, at: '2099-01-01T00:00:00' }, '/at'],
  ['a day that is none', { cron: undefined, at: '2099-13-41T00:00:00Z' }, '/at'],
  ['an end that is over', { endsAt: '2020-01-01T00:00:00Z' }, '/endsAt'],
  ['another path as session', { session: '..' }, '/session'],
  ['a field that is unknown', { every: '5m' }, '/every'],
  ['NUL', { name: 'a\0b' }, '/name'],
])('%s is refused, by its field', async (_, fault, path) => {
  const { status, json } = await create({ ...daily, ...fault })
  expect([status, json.code, (json.errors as { path: string }[])[0]!.path]).toEqual([
    422,
    'validation_failed',
    path,
  ])
})

test('an unknown agent is not found, and a change that is refused changes nothing', async () => {
  expect((await create({ ...daily, agent: 'nobody' })).json).toMatchObject({ code: 'agent_not_found' })
  const { json: made } = await create(daily)
  for (const body of [
    { cron: 'x' },
    { agent: 'nobody' },
    { cron: null },
    { dispatch: false, message: '' },
    {},
  ]) {
    const refused = await platform.call('PATCH', `/schedules/${made.id}`, { body })
    expect([422, 404]).toContain(refused.status)
  }
  expect((await platform.call('GET', `/schedules/${made.id}`)).json).toEqual(made)
})

test('nine requests under one key make one schedule', async () => {
  const headers = { 'idempotency-key': 'nine' }
  const all = await Promise.all(Array.from({ length: 9 }, () => create(daily, { headers })))
  const ids = new Set(all.filter(({ status }) => status === 201).map(({ json }) => json.id))
  expect([ids.size, all.every(({ status }) => status === 201 || status === 409)]).toEqual([1, true])
  expect((await create(daily, { headers })).json.id).toBe([...ids][0])
  expect((await create({ ...daily, name: 'other' }, { headers })).json).toMatchObject({
    code: 'idempotency_conflict',
  })
})

test('a request that is repeated when its time is over is answered as the first one', async () => {
  const headers = { 'idempotency-key': 'over' }
  const body = { agent: 'pulse', message: 'once', at: new Date(Date.now() + 1_000).toISOString() }
  const { json: made } = await create(body, { headers })
  const over = await eventually('it has fired', async () => {
    const { json } = await platform.call('GET', `/schedules/${made.id}`)
    return json.nextAt === null
  })
  const again = await create(body, { headers })
  expect([over, again.status, again.json.id]).toEqual([true, 201, made.id])
  expect((await create(body)).json).toMatchObject({ code: 'validation_failed' })
})

test('members see and change their own, admins all, viewers none', async () => {
  const { json: made } = await create(daily)
  const path = `/schedules/${made.id}`
  const other = await platform.keyOf('other-member')
  const viewer = await platform.keyFor('viewer')
  const admin = await platform.keyFor('admin')
  for (const key of [other, viewer]) {
    expect((await platform.call('GET', path, { key })).status).toBe(404)
    expect((await platform.call('GET', `${path}/runs`, { key })).status).toBe(404)
    expect((await platform.call('GET', '/schedules', { key })).json).toEqual([])
  }
  expect((await platform.call('PATCH', path, { key: other, body: { paused: true } })).status).toBe(404)
  expect((await platform.call('DELETE', path, { key: other })).status).toBe(404)
  expect((await create(daily, { key: viewer })).status).toBe(403)
  expect((await platform.call('PATCH', path, { key: viewer, body: { paused: true } })).status).toBe(403)
  expect((await platform.call('PATCH', path, { key: admin, body: { paused: true } })).json).toMatchObject({
    paused: true,
    owner: 'key-member',
  })
})

test('the client makes one that fires, and reads its runs', async () => {
  const { schedules } = client
  const at = new Date(Date.now() + 1_200)
  const made: Schedule = await schedules.create({ agent: 'pulse', message: 'now', at, session: 'clock' })
  expect((await schedules.list({ limit: 1 })).schedules).toMatchObject([{ id: made.id }])
  const fired = await eventually('it has fired and ended', async () => {
    const { runs } = await schedules.runs(made.id)
    return runs[0]?.status === 'completed' ? runs : null
  })
  expect(fired).toMatchObject([{ plannedAt: at.toISOString(), error: null, goalId: null }])
  const run = await client.runs.get(fired[0]!.runId!)
  expect(run).toMatchObject({ trigger: 'schedule', sessionId: 'clock', userId: 'planner', message: 'now' })
  expect(await schedules.get(made.id)).toMatchObject({ nextAt: null, lastRunId: run.runId })
  await expect(schedules.update(made.id, { at: new Date(0) })).rejects.toMatchObject({
    code: 'validation_failed',
  })
  expect(await schedules.delete(made.id)).toEqual({ id: made.id, deleted: true })
  await expect(schedules.get(made.id)).rejects.toMatchObject({ code: 'schedule_not_found' })
  // Its runs stay.
  expect((await client.runs.list({ sessionId: 'clock' })).runs).toHaveLength(1)
})

test('pages go on behind their last one', async () => {
  const ids: string[] = []
  for (let n = 0; n < 3; n++) ids.push((await client.schedules.create({ ...daily, name: `page ${n}` })).id)
  const first = await client.schedules.list({ limit: 2 })
  const second = await client.schedules.list({ limit: 2, cursor: first.next! })
  const seen = [...first.schedules, ...second.schedules].map(({ id }) => id)
  expect([seen, second.next]).toEqual([ids.toReversed(), undefined])
})
