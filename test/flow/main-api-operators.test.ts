/** The operators' routes of the main API: each with real data, its refusals, and hostile input. */

import { createPublicKey } from 'node:crypto'
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, onTestFinished, test, vi } from 'vitest'
import { createWebhookClient } from '#client/webhooks.ts'
import { sleep } from '#lib/backoff.ts'
import { AppError } from '#lib/errors.ts'
import { catalog } from '#topics/catalog.ts'
import { eventually } from '../support/eventually.ts'
import { type MainApiPlatform, openMainApiPlatform } from '../support/main-api-platform.ts'
import { axisVector } from '../support/points.ts'
import { openWebhookSink, type WebhookSink } from '../support/webhook-sink.ts'

let api: MainApiPlatform
let sink: WebhookSink
let folder: string
let volumes: string
beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'fl-'))
  volumes = join(folder, 'volumes')
  sink = await openWebhookSink()
  const events = ['task.completed']
  const targets = {
    receiver: { url: `${sink.url}/hook`, events },
    nobody: { url: 'http://127.0.0.1:9/', events },
  }
  const file = join(folder, 'targets.yaml')
  writeFileSync(file, JSON.stringify({ targets }))
  api = await openMainApiPlatform({ AGENT_VOLUMES_DIR: volumes, WEBHOOK_TARGETS_FILE: file })
})
afterAll(async () => {
  await api.close()
  await sink.close()
  rmSync(folder, { recursive: true, force: true })
})

// biome-ignore lint/suspicious/noExplicitAny: answers of many shapes, each checked where it is read.
type Data = any

async function as(access: 'admin' | 'member' | 'viewer', method: string, path: string, body?: unknown) {
  const token = await api.tokenFor(access)
  const answer = await api.call(method, `/api/v1${path}`, { token, ...(body === undefined ? {} : { body }) })
  return { ...answer, data: answer.json.data as Data, code: answer.json.code as string | undefined }
}
const admin = (method: string, path: string, body?: unknown) => as('admin', method, path, body)
const viewer = (path: string) => as('viewer', 'GET', path)

describe('agents', () => {
  test('are provisioned with a key that is shown once, listed, changed, rotated and deleted', async () => {
    const body = { agent_id: 'Scout-1', name: 'Scout', role: 'researcher', access: 'viewer', burst: 7 }
    const made = await admin('POST', '/agents', body)
    expect(made.status).toBe(201)
    expect(made.headers.get('cache-control')).toBe('no-store')
    expect(made.headers.get('location')).toBe('/api/v1/agents/Scout-1')
    const { private_key, public_key_fingerprint: fingerprint, ...rest } = made.data
    expect(createPublicKey(private_key).asymmetricKeyType).toBe('ed25519')
    expect(rest).toEqual({
      ...body,
      uid: expect.stringMatching(/^agent_/),
      tier: 'agent',
      quota: null,
      concurrent: null,
    })
    const listed = await viewer('/agents')
    expect(listed.data.agents).toContainEqual({ ...rest, public_key_fingerprint: fingerprint })
    const changes = { name: 'Pathfinder', role: 'lead', access: 'member', tier: 'research-agent' }
    const figures = { quota: 5, burst: null, concurrent: 2 }
    const changed = await admin('PATCH', '/agents/scout-1', { ...changes, ...figures })
    expect(changed.data).toEqual({ ...rest, ...changes, ...figures, public_key_fingerprint: fingerprint })
    const rotated = await admin('POST', '/agents/scout-1/rotate', {})
    expect(rotated.headers.get('cache-control')).toBe('no-store')
    expect(rotated.data.public_key_fingerprint).not.toBe(fingerprint)
    expect(rotated.data.private_key).toMatch(/^-----BEGIN PRIVATE KEY-----/)
    const shown = await viewer('/agents/SCOUT-1')
    expect(shown.data).toMatchObject({
      agent_id: 'Scout-1',
      limits: { day: { limit: 5, used: 0, remaining: 5 } },
    })
    expect((await admin('DELETE', '/agents/scout-1')).data).toEqual({
      agent_id: 'Scout-1',
      uid: rest.uid,
      deleted: true,
    })
    expect(await viewer('/agents/scout-1')).toMatchObject({ status: 404, code: 'not_found' })
    // No folder was made for it.
    expect(existsSync(join(api.platform.home, 'agents', 'Scout-1'))).toBe(false)
  })

  test('may have their key in a volume, which is a name and nothing else', async () => {
    const made = await admin('POST', '/agents', { agent_id: 'kept', volume: 'kept-1' })
    expect(made.data).toMatchObject({ agent_id: 'kept', volume: 'kept-1' })
    expect(made.text).not.toContain('PRIVATE KEY')
    expect(made.text).not.toContain(folder)
    const file = join(volumes, 'kept-1', 'ed25519.pem')
    expect(statSync(file).mode & 0o777).toBe(0o600)
    const first = readFileSync(file, 'utf8')
    const again = await admin('POST', '/agents/kept/rotate', { volume: 'kept-1' })
    expect(again).toMatchObject({ status: 409, code: 'conflict' })
    expect(again.json.detail).toBe(
      'kept-1/ed25519.pem holds a key already: choose another volume, or replace it with `"force": true`.',
    )
    expect(again.text).not.toContain(folder)
    expect(readFileSync(file, 'utf8')).toBe(first)
    expect((await admin('POST', '/agents/kept/rotate', { volume: 'kept-1', force: true })).status).toBe(200)
    expect(readFileSync(file, 'utf8')).not.toBe(first)
    const paths = ['..', '../out', '/tmp/out', 'a/b', '.hidden', '', 'a\0b', 'x'.repeat(65), '%2e%2e', '-rf']
    for (const volume of paths) {
      const refused = await admin('POST', '/agents', { agent_id: 'elsewhere', volume })
      expect(refused).toMatchObject({ status: 422, code: 'validation_failed' })
    }
    expect(await viewer('/agents/elsewhere')).toMatchObject({ status: 404 })
    expect(readdirSync(volumes)).toEqual(['kept-1'])
    expect(readdirSync(folder).sort()).toEqual(['targets.yaml', 'volumes'])
  })

  test('are not made twice, nor changed by unknown fields', async () => {
    await admin('POST', '/agents', { agent_id: 'once' })
    expect(await admin('POST', '/agents', { agent_id: 'ONCE' })).toMatchObject({
      status: 409,
      code: 'agent_exists',
    })
    const before = (await viewer('/agents/once')).data
    const faulty = [
      { nickname: 'x' },
      { agent_id: 'other' },
      { uid: 'agent_x' },
      { public_key: 'x' },
      { __proto__x: 1 },
      { access: 'root' },
      { tier: null },
      { quota: -1 },
      { quota: '5' },
      { burst: 0 },
      { concurrent: 1.5 },
      {},
      [],
      null,
    ]
    for (const body of faulty) {
      expect((await admin('PATCH', '/agents/once', body)).status, JSON.stringify(body)).toBe(422)
    }
    const proto = await admin('PATCH', '/agents/once', '{"__proto__": {"access": "admin"}}')
    expect(proto.status).toBe(422)
    expect(await admin('PATCH', '/agents/once', { name: 'a\0b' })).toMatchObject({ status: 422 })
    expect(await admin('PATCH', '/agents/once', { burst: 10_001 })).toMatchObject({ status: 422 })
    expect(await admin('PATCH', '/agents/nobody-here', { name: 'x' })).toMatchObject({ status: 404 })
    expect((await viewer('/agents/once')).data).toEqual(before)
  })

  test('show their sessions and operations to themselves and to admins', async () => {
    const client = await api.clientOf('busy')
    await client.upsert('posts', [{ id: 'p', vector: axisVector(1), payload: {} }])
    await client.close()
    const seen = await admin('GET', '/agents/busy')
    expect(seen.data.sessions).toHaveLength(1)
    expect(seen.data.operations.map((one: Data) => one.operation)).toContain('upsert')
    const shown = (await viewer('/agents/busy')).data
    expect(shown).not.toHaveProperty('sessions')
    expect(shown).not.toHaveProperty('operations')
    expect((await viewer('/agents/an-viewer')).data).toHaveProperty('sessions')
  })
})

describe('the log', () => {
  test('shows every topic with its offsets', async () => {
    const { data } = await viewer('/log/topics')
    expect(data.topics.map((one: Data) => one.topic)).toEqual(catalog.map(({ name }) => name))
    const commands = (await viewer('/log/topics/vectors.commands')).data
    expect(commands).toMatchObject({
      topic: 'vectors.commands',
      cleanup: 'compact',
      retention_ms: null,
      schema: 'vector-upsert',
      epoch: 1,
      readers: expect.arrayContaining([{ service: 'vector-writer', group: 'vector-writer', reads: 'batch' }]),
    })
    const ends = commands.partitions.reduce((sum: number, one: Data) => sum + one.end - one.start, 0)
    expect(commands.records).toBe(ends)
    expect(ends).toBeGreaterThan(0)
    expect(commands.partitions.map((one: Data) => one.partition)).toEqual([...Array(12).keys()])
    expect(await viewer('/log/topics/no.such.topic')).toMatchObject({ status: 404, code: 'not_found' })
  })

  test('shows every reader group, and its lag over the last minutes', async () => {
    // While all is busy an answer may say so, and a writer may still be joining.
    const writer = await eventually('the writer has joined', async () => {
      const { data } = await viewer('/log/groups')
      return data?.groups.find((one: Data) => one.group === 'vector-writer' && one.members > 0)
    })
    expect(writer).toMatchObject({ topic: 'vectors.commands', members: 1, group_id: 'vector-writer' })
    const shown = (await viewer('/log/groups/vector-writer')).data
    expect(shown.partitions).toHaveLength(12)
    expect(shown.stuck).toEqual([])
    expect(await viewer('/log/groups/no-such-group')).toMatchObject({ status: 404 })
    await eventually('a sample was taken', async () => {
      const { data: lag } = await viewer('/log/groups/vector-writer/lag?minutes=5')
      return lag.samples.length > 0 && lag.every_s === 5 && lag.samples.every((one: Data) => one.lag >= 0)
    })
    for (const minutes of ['-1', 'x', '1e3', '', '0', '361']) {
      expect((await viewer(`/log/groups/vector-writer/lag?minutes=${minutes}`)).status).toBe(422)
    }
  })
})

describe('dead letters', () => {
  const topic = 'audit.events'
  /** Records that cannot be decoded: the audit-writer parks them. */
  async function park(count: number): Promise<Data[]> {
    const { eventLog } = api.platform.engines
    const key = `bad-${Math.random()}`
    const values = Array.from({ length: count }, () => ({ key: Buffer.from(key), value: Buffer.from('bad') }))
    await eventLog.append(topic, 0, values)
    return eventually('they are parked', async () => {
      const { data } = await viewer(`/dead-letters?topic=${topic}&key=${key}`)
      return data.count === count && data.dead_letters
    })
  }
  const named = (letters: Data[]) => letters.map(({ topic: of, key }) => ({ topic: of, key }))
  const listed = async (key: string) => (await viewer(`/dead-letters?key=${encodeURIComponent(key)}`)).data

  test('are listed, shown, and discarded by their names, after a dry run', async () => {
    const letters = await park(3)
    expect(letters[0]).toMatchObject({ topic, group: 'audit-writer', value_bytes: 3, epoch: 1 })
    const shown = await admin('GET', `/dead-letters/show?topic=${topic}&key=${letters[0].key}`)
    expect(shown.data.dead_letters).toMatchObject([{ value: '<3 bytes>', fault: expect.any(String) }])
    const ids = named(letters.slice(0, 2))
    const dry = await admin('POST', '/dead-letters/discard', { ids, dry_run: true })
    expect(dry.data).toMatchObject({ dry_run: true, counts: { meant: 2, discarded: 0 } })
    expect((await listed(letters[0].record_key)).count).toBe(3)
    const done = await admin('POST', '/dead-letters/discard', {
      ids: [...ids, { topic, key: 'audit-writer/0/999999' }],
    })
    expect(done.data).toMatchObject({ dry_run: false, counts: { meant: 3, discarded: 2, refused: 1 } })
    expect(done.data.results.at(-1)).toMatchObject({ status: 'refused', code: 'dead_letter_not_found' })
    expect(named((await listed(letters[0].record_key)).dead_letters)).toEqual(named(letters.slice(2)))
    expect(await admin('POST', '/dead-letters/discard', { ids })).toMatchObject({
      status: 404,
      code: 'dead_letter_not_found',
    })
  })

  test('are replayed once, even by requests at the same time', async () => {
    const [letter] = await park(1)
    const ids = named([letter])
    const asked = await Promise.all([1, 2].map(() => admin('POST', '/dead-letters/replay', { ids })))
    expect(asked.map(({ status }) => status).sort()).toEqual([200, 404])
    expect(asked.find(({ status }) => status === 200)?.data.counts).toMatchObject({ replayed: 1 })
    // It is parked again, because nothing was repaired: under another name, and once.
    const again = await eventually('it is parked again', async () => {
      const { count, dead_letters } = await listed(letter.record_key)
      return count > 0 && dead_letters
    })
    expect(again).toHaveLength(1)
    expect(again[0].key).not.toBe(letter.key)
  })

  test('are treated by a filter, never all of them by mistake', async () => {
    const [letter] = await park(2)
    const filter = { topic, key: letter.record_key, group: 'audit-writer' }
    const others = { ...filter, group: 'vector-writer' }
    expect(await admin('POST', '/dead-letters/discard', { filter: others })).toMatchObject({ status: 404 })
    const discarded = await admin('POST', '/dead-letters/discard', { filter })
    expect(discarded.data.counts).toMatchObject({ meant: 2, discarded: 2 })
    const faulty = [
      {},
      { dry_run: true },
      { filter: {} },
      { ids: [] },
      { ids: [{ topic }] },
      { ids: named([letter]), filter },
      { filter: { ...filter, all: true } },
      { ids: [{ topic, key: 'x', __proto: 1 }] },
    ]
    for (const body of faulty) {
      expect((await admin('POST', '/dead-letters/replay', body)).status, JSON.stringify(body)).toBe(422)
    }
    expect(await admin('GET', '/dead-letters?topic=no.such')).toMatchObject({ status: 404 })
  })
})

describe('webhooks', () => {
  test('show targets and attempts as they are', async () => {
    const webhooks = createWebhookClient({ webhookUrl: api.addresses.webhook_url as string })
    const event = { event: 'task.completed', agent: 'ATLAS', task_id: 't-1', result: {} } as const
    await webhooks.fire(event, { targets: ['receiver', 'nobody'] })
    await webhooks.close()
    const targets = await eventually('both were tried', async () => {
      const { data } = await viewer('/webhooks/targets')
      const [nobody, receiver] = data.targets
      return receiver?.last_status === 204 && receiver.state === 'idle' && nobody?.last_fault !== null && data
    })
    expect(targets.couriers).toBe(1)
    expect(targets.targets).toMatchObject([
      { target: 'nobody', lag: 1, last_status: null },
      { target: 'receiver', state: 'idle', lag: 0, last_status: 204 },
    ])
    expect(JSON.stringify(targets)).not.toContain(folder)
    const { data } = await viewer('/webhooks/targets/receiver/attempts?limit=5')
    expect(data.attempts.find((one: Data) => one.kind === 'success')).toMatchObject({
      target: 'receiver',
      status: 204,
      attempt: 1,
    })
    expect(await viewer('/webhooks/targets/unknown/attempts')).toMatchObject({ status: 404 })
    await eventually('brain state has it, too', async () => {
      const state = (await viewer('/brain/state')).data
      return state.webhooks.receiver.last_status === 204 && state.webhooks.nobody.lag === 1
    })
  })
})

test('collections show their points, and brain state all of it', async () => {
  const client = await api.clientOf('writer')
  const ids = ['a', 'b', 'c']
  await client.upsert(
    'knowledgebase',
    ids.map((id, n) => ({ id, vector: axisVector(n), payload: {} })),
    {
      wait: true,
    },
  )
  await client.close()
  await eventually('the collections are read again', async () => {
    const { data } = await viewer('/collections')
    return data?.collections.find((one: Data) => one.collection === 'knowledgebase')?.points === 3
  })
  const state = await eventually('the state is read again', async () => {
    const read = (await viewer('/brain/state')).data
    return read?.collections.knowledgebase === 3 && read
  })
  expect(state).toMatchObject({
    agents: expect.arrayContaining([
      {
        uid: expect.stringMatching(/^agent_/),
        slug: 'an-admin',
        name: 'an-admin',
        role: 'knowledge-worker',
        node: null,
      },
    ]),
    log: { groups: { 'vector-writer': expect.any(Number), 'audit-writer': expect.any(Number) } },
    as_of: expect.stringMatching(/Z$/),
  })
  expect(Object.keys(state).sort()).toEqual([
    ...['agents', 'as_of', 'collections', 'goals', 'log', 'notes', 'runs', 'schedules', 'webhooks'],
  ])
})

test('many who look at the state at once cost one reading', async () => {
  const token = await api.tokenFor('admin')
  await sleep(1_100)
  const path = '/api/v1/brain/state'
  // A slow machine would not answer all within the second for which a reading is kept.
  const clock = vi.spyOn(performance, 'now').mockReturnValue(performance.now())
  onTestFinished(() => clock.mockRestore())
  const asked = await Promise.all(Array.from({ length: 20 }, () => api.call('GET', path, { token })))
  expect(new Set(asked.map(({ json }) => (json.data as Data).as_of)).size).toBe(1)
})

test('while an engine is away there is no half of a state, and it comes back by itself', async () => {
  const { vectors } = api.platform.engines
  const { stats } = vectors
  vectors.stats = () => Promise.reject(new AppError('vector_engine_unavailable', 'away', { retryAfter: 3 }))
  try {
    await sleep(1_100)
    const away = await viewer('/brain/state')
    expect(away).toMatchObject({ status: 503, code: 'vector_engine_unavailable' })
    expect(away.headers.get('retry-after')).toBe('3')
    expect((await viewer('/log/groups')).status).toBe(200)
  } finally {
    vectors.stats = stats
  }
  expect((await viewer('/brain/state')).status).toBe(200)
})

test('only who may do so changes anything', async () => {
  const changes: [string, string, unknown][] = [
    ['POST', '/agents', { agent_id: 'never' }],
    ['PATCH', '/agents/an-admin', { access: 'admin' }],
    ['DELETE', '/agents/an-admin', undefined],
    ['POST', '/agents/an-admin/rotate', {}],
    ['POST', '/dead-letters/replay', { filter: { topic: 'audit.events' } }],
    ['POST', '/dead-letters/discard', { filter: { topic: 'audit.events' } }],
    ['GET', '/dead-letters/show', undefined],
    ['GET', '/audit', undefined],
    ['GET', '/log/topics/agents.changes/tail', undefined],
  ]
  for (const access of ['viewer', 'member'] as const) {
    for (const [method, path, body] of changes) {
      expect(await as(access, method, path, body)).toMatchObject({ status: 403, code: 'forbidden' })
    }
  }
})
