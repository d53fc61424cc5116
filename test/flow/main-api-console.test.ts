/** The console's live views at the main API: traced ids, lag in time, targets, dispatches. */

import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest'
import { partitionOf } from '#lib/murmur2.ts'
import { eventually } from '../support/eventually.ts'
import { call as bareCall } from '../support/gateway-call.ts'
import { axisVector } from '../support/points.ts'
import { agents, openRunsPlatform, type RunsPlatform } from '../support/runs-platform.ts'
import { openWebhookSink, type WebhookSink } from '../support/webhook-sink.ts'

vi.setConfig({ testTimeout: 60_000, hookTimeout: 120_000 })

let platform: RunsPlatform
let sink: WebhookSink
let folder: string
beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'fl-'))
  sink = await openWebhookSink()
  const file = join(folder, 'targets.yaml')
  const headers = { 'x-token': 'hush-hush' }
  const receiver = { url: `${sink.url}/hook?token=hush-hush`, headers, events: ['task.completed'] }
  writeFileSync(file, JSON.stringify({ targets: { receiver } }))
  platform = await openRunsPlatform({ WEBHOOK_TARGETS_FILE: file })
})
afterAll(async () => {
  await platform?.close()
  await sink?.close()
  rmSync(folder, { recursive: true, force: true })
})

// biome-ignore lint/suspicious/noExplicitAny: answers of many shapes, each checked where it is read.
type Data = any

async function as(access: 'admin' | 'member' | 'viewer', method: string, path: string, body?: unknown) {
  const key = await platform.tokenFor(access)
  const given = body === undefined ? {} : { body }
  const answer = await bareCall(platform.baseUrl, `/api/v1${path}`, { method, key, ...given })
  return { ...answer, data: answer.json.data as Data, code: answer.json.code as string | undefined }
}
const admin = (method: string, path: string, body?: unknown) => as('admin', method, path, body)

async function follow(id: string): Promise<Data> {
  const answer = await admin('GET', `/requests/${encodeURIComponent(id)}`)
  expect(answer.status, answer.text).toBe(200)
  return answer.data
}

const topicsOf = (followed: Data): string[] => followed.records.map(({ topic }: Data) => topic)

describe('an id is followed, whatever it names', () => {
  test('an operation: its call, its record, and that both indexes handled it', async () => {
    const key = await platform.keyFor('member')
    const point = { id: 'STIDX001-aaaaaa', vector: axisVector(1), payload: { status: 'active' } }
    const body = { collection: 'knowledgebase', points: [point] }
    const accepted = await bareCall(platform.vectorUrl, '/v1/vectors/upsert?wait=true', {
      method: 'POST',
      key,
      body,
    })
    const id = String(accepted.json.operation_id)
    const found = await eventually('the call is noted, the record handled', async () => {
      const data = await follow(id)
      const groups = data.records.find(({ topic }: Data) => topic === 'vectors.commands')?.groups ?? []
      const isHandled = groups.some(({ state }: Data) => state === 'handled')
      return data.calls.length > 0 && isHandled ? data : null
    })
    expect(found).toMatchObject({ id, kind: 'operation', request_id: accepted.headers.get('x-request-id') })
    expect(topicsOf(found)).toContain('audit.events')
    // A forged one is nothing that is known.
    const forged = await follow(`${id.slice(0, -1)}${id.endsWith('A') ? 'B' : 'A'}`)
    expect([forged.kind, forged.records]).toEqual(['request', []])
  })

  test('a run: the request behind it, its records, all that joined', async () => {
    platform.script('atlas', () => [{ text: 'I ask.' }])
    platform.script('pulse', () => [{ text: 'Yes.' }])
    const sent = await as('member', 'POST', '/runs', {
      appName: 'ATLAS',
      newMessage: { role: 'user', parts: [{ text: 'Is it so? @pulse may know.' }] },
    })
    const { runId } = sent.data
    // The log has it a moment after the rows.
    const found = await eventually('it has ended, and the log has its events', async () => {
      const data = await follow(runId)
      const hasEnded = data.runs.every(({ status }: Data) => status === 'completed')
      return data.runs.length === 2 && hasEnded && topicsOf(data).includes('runs.events') && data
    })
    expect(found).toMatchObject({ kind: 'run', request_id: sent.headers.get('x-request-id') })
    expect(found.runs.map(({ agent }: Data) => agent)).toEqual(['ATLAS', 'PULSE'])
    // The request leads to the same runs.
    const byRequest = await follow(found.request_id)
    expect(byRequest.kind).toBe('request')
    expect(byRequest.runs.map(({ run_id }: Data) => run_id)).toContain(runId)
  })

  test('a dispatch: its goal and its runs', async () => {
    const { data: made } = await as('member', 'POST', '/dispatches', { message: 'Report.\nAll of you.' })
    const found = await eventually('it has ended, and the log has its goal', async () => {
      const data = await follow(String(made.goalId))
      return data.dispatch?.status === 'completed' && topicsOf(data).includes('hub.records') && data
    })
    expect(found.kind).toBe('dispatch')
    expect(found.dispatch.goal_id).toBe(made.goalId)
    expect(found.runs.length).toBeGreaterThanOrEqual(agents.length - 1)
    expect(topicsOf(found)).toContain('runs.commands')
  })

  test('a delivery, by its sequence, its webhook id and its idempotency key', async () => {
    const url = `${platform.addresses.webhook_url}/`
    const body = { event: 'task.completed', agent: 'scout', task_id: 'T1', result: {}, ts: 1 }
    const fired = await bareCall(url, '/api/v1/webhooks/fire', { method: 'POST', body })
    const [{ sequence }] = fired.json.deliveries as Data
    const bySequence = await eventually('it is delivered', async () => {
      const data = await follow(`receiver/${sequence}`)
      return data.deliveries[0]?.attempts.some(({ kind }: Data) => kind === 'success') && data
    })
    expect(bySequence).toMatchObject({ kind: 'delivery', request_id: fired.headers.get('x-request-id') })
    const byKey = await follow('scout-T1-task.completed')
    expect(byKey).toMatchObject({ kind: 'delivery', request_id: fired.headers.get('x-request-id') })
    expect(byKey.deliveries[0]).toMatchObject({ target: 'receiver', sequence, event: 'task.completed' })
    expect(topicsOf(byKey)).toEqual(['webhooks.deliveries'])
  })

  test('an unknown id has no records; only admins may ask', async () => {
    expect(await follow('nobody')).toMatchObject({ kind: 'request', records: [], runs: [], deliveries: [] })
    expect((await as('member', 'GET', '/requests/nobody')).status).toBe(403)
  })
})

describe('groups', () => {
  test('say how long the oldest record waits while nobody reads it, and who reads what', async () => {
    const { data: one } = await as('viewer', 'GET', '/log/groups/webhook-courier')
    expect(one.partitions[0].owner).toEqual(expect.any(String))
    await sink.down()
    const url = `${platform.addresses.webhook_url}/`
    const body = { event: 'task.completed', agent: 'scout', task_id: 'T2', result: {}, ts: 1 }
    await bareCall(url, '/api/v1/webhooks/fire', { method: 'POST', body })
    const behind = await eventually('it is known since when', async () => {
      const { data } = await as('viewer', 'GET', '/log/groups/webhook-courier')
      return data.behind_s > 0 && data.partitions.some(({ lag }: Data) => lag > 0) && data
    })
    expect(behind.partitions.filter(({ behind_s }: Data) => behind_s !== null).length).toBe(1)
    const { data: target } = await as('viewer', 'GET', '/webhooks/targets/receiver')
    expect(target.target.head).toMatchObject({ event: 'task.completed', agent: 'scout', task_id: 'T2' })
    await sink.up()
    await eventually('nothing waits', async () => {
      const { data } = await as('viewer', 'GET', '/log/groups')
      const courier = data.groups.find(({ group }: Data) => group === 'webhook-courier')
      return courier.lag === 0 && courier.behind_s === null
    })
  })

  test('have their curves in one answer', async () => {
    const { data } = await eventually('samples were taken', async () => {
      const answer = await as('viewer', 'GET', '/log/lag?minutes=1&steps=12')
      return answer.data.groups[0].lag.some((lag: number | null) => lag !== null) ? answer : null
    })
    expect(data.at).toHaveLength(12)
    expect(data.groups.map(({ group }: Data) => group)).toContain('vector-writer')
    expect(await as('viewer', 'GET', '/log/lag?steps=0')).toMatchObject({ status: 422 })
    expect(await as('viewer', 'GET', '/log/lag?minutes=361')).toMatchObject({ status: 422 })
  })
})

test('a topic says how much room it takes', async () => {
  const { data } = await as('viewer', 'GET', '/log/topics/audit.events/partitions')
  expect(data.partitions).toHaveLength(12)
  expect(data.partitions[0]).toMatchObject({ partition: 0, leader: null, replicas: 1, in_sync: 1 })
  expect(data.bytes).toBe(data.partitions.reduce((sum: number, { bytes }: Data) => sum + bytes, 0))
  expect(data.bytes).toBeGreaterThan(0)
  expect(await as('viewer', 'GET', '/log/topics/none/partitions')).toMatchObject({ status: 404 })
})

describe('a webhook target', () => {
  test('is shown with its settings, and without a secret', async () => {
    const answer = await as('viewer', 'GET', '/webhooks/targets/receiver')
    expect(answer.data.settings).toMatchObject({
      url: `${new URL(sink.url).origin}/…`,
      headers: ['x-token'],
      events: ['task.completed'],
      agents: null,
      retry: 5,
    })
    expect(answer.text).not.toContain('hush')
    expect(await as('viewer', 'GET', '/webhooks/targets/nobody')).toMatchObject({ status: 404 })
  })

  test('gets a test event from a member, which counts in its bars, and who sent it is noted', async () => {
    expect((await as('viewer', 'POST', '/webhooks/targets/receiver/test')).status).toBe(403)
    const sent = await as('member', 'POST', '/webhooks/targets/receiver/test')
    expect(sent.status).toBe(202)
    const key = sent.data.idempotency_key
    await eventually('it arrived', () => sink.received.some(({ idempotencyKey }) => idempotencyKey === key))
    await eventually('its minute has it', async () => {
      const { data } = await as('viewer', 'GET', '/webhooks/attempts')
      const bars = data.targets.find(({ target }: Data) => target === 'receiver')
      return bars?.delivered.length === 60 && bars.delivered.some((count: number) => count > 0)
    })
    const { data: audit } = await admin('GET', '/audit?action=webhook.test')
    expect(audit.actions[0]).toMatchObject({ target: 'receiver', outcome: 'done' })
    expect(await as('member', 'POST', '/webhooks/targets/nobody/test')).toMatchObject({ status: 404 })
  })

  test('loses its head when an admin gives it up', async () => {
    expect((await as('member', 'POST', '/webhooks/targets/receiver/skip')).status).toBe(403)
    // The event of the test before may have arrived, and not be committed yet.
    await eventually('nothing is pending', async () => {
      const { data } = await as('viewer', 'GET', '/webhooks/targets/receiver')
      return data.target.lag === 0
    })
    expect(await admin('POST', '/webhooks/targets/receiver/skip')).toMatchObject({ status: 409 })
    await sink.down()
    await as('member', 'POST', '/webhooks/targets/receiver/test')
    const { data } = await admin('POST', '/webhooks/targets/receiver/skip')
    expect(data).toMatchObject({ target: 'receiver', outcome: 'parked' })
    await sink.up()
  })
})

test('dispatches are listed with how their runs are; those of others only to admins', async () => {
  const { data: made } = await as('member', 'POST', '/dispatches', { message: 'Of a member' })
  const listed = await eventually('it has ended', async () => {
    const { data } = await as('member', 'GET', '/dispatches?status=completed')
    return data.find(({ goalId }: Data) => goalId === made.goalId)
  })
  expect(listed).toMatchObject({ title: 'Of a member', counts: { completed: agents.length - 1 } })
  expect((await as('viewer', 'GET', '/dispatches')).data).toEqual([])
  const first = await admin('GET', '/dispatches?limit=1')
  expect(first.data.map(({ goalId }: Data) => goalId)).toEqual([made.goalId])
  const next = /<([^>]+)>; rel="next"/.exec(first.headers.get('link') ?? '')?.[1] ?? ''
  expect((await admin('GET', next.replace('/api/v1', ''))).data[0].goalId).toBeLessThan(made.goalId)
})

test('a dry run says which dead letters a replay would refuse', async () => {
  const { eventLog } = platform.platform.engines
  const key = Buffer.from('note/999999')
  const bad = { key, value: Buffer.from('bad') }
  await eventLog.append('hub.records', partitionOf(key, 12), [bad, bad])
  const filter = { topic: 'hub.records' }
  await eventually('both are parked', async () => {
    const { data } = await admin('GET', '/dead-letters?topic=hub.records')
    return data.count === 2
  })
  // The second one is the later record of the first one's key.
  const { data: replay } = await admin('POST', '/dead-letters/replay', { filter, dry_run: true })
  expect(replay.counts).toMatchObject({ meant: 2, refused: 1, superseded: 1, unknown: 0 })
  expect(replay.results.map(({ code }: Data) => code)).toEqual(['superseded', undefined])
  const { data: discard } = await admin('POST', '/dead-letters/discard', { filter, dry_run: true })
  expect(discard.counts).toMatchObject({ meant: 2, refused: 0, superseded: 1 })
  // The replay does the same as the dry run.
  const { data: real } = await admin('POST', '/dead-letters/replay', { filter })
  expect(real.counts).toMatchObject({ replayed: 1, refused: 1 })
})
