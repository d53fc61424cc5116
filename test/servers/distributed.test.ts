/** The platform as operators run it at scale: each service in a process of its own, two of most, on real engines. */

import { createPrivateKey, randomUUID, sign } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { Kafka, logLevel } from 'kafkajs'
import { afterAll, beforeAll, expect, test } from 'vitest'
import type { Client } from '#client/client.ts'
import { type DistributedPlatform, openDistributedPlatform } from '../support/distributed-platform.ts'
import { eventually } from '../support/eventually.ts'
import { call } from '../support/gateway-call.ts'
import { axisVector } from '../support/points.ts'

let platform: DistributedPlatform
let keyFile: string
let onA: Client
let onB: Client
beforeAll(async () => {
  platform = await openDistributedPlatform()
  keyFile = await platform.provision('whale')
  const [a, b] = platform.gateways
  onA = platform.clientOf(a, 'whale', keyFile)
  onB = platform.clientOf(b, 'whale', keyFile)
})
afterAll(() => platform?.close())

interface Tailed {
  records: { partition: number; headers: Record<string, string>; value: Record<string, unknown> | null }[]
}

test('a challenge that one gateway gave is answered on the other, and the key holds on both', async () => {
  const [a, b] = platform.gateways
  const nonce = 'ab'.repeat(16)
  const challenge = await call(a.vectorUrl, '/v1/auth/handshake', { body: { agent_id: 'whale', nonce } })
  expect(challenge.status).toBe(200)
  const text = Buffer.from(nonce + challenge.json.server_nonce)
  const signature = sign(null, text, createPrivateKey(readFileSync(keyFile))).toString('hex')
  const issued = await call(b.vectorUrl, '/v1/auth/verify', { body: { agent_id: 'whale', signature } })
  expect(issued.status).toBe(200)
  for (const { vectorUrl } of [a, b]) {
    const counted = await call(vectorUrl, '/v1/vectors/count?collection=posts', {
      key: issued.json.api_key as string,
    })
    expect([counted.status, counted.json.count]).toEqual([200, 0])
  }
})

test('each gateway reads the writes of the other, in every way', async () => {
  const points = [0, 10, 20].map((axis) => ({ id: `p${axis}`, vector: axisVector(axis), payload: { axis } }))
  // The writers may still be joining their group: a request waits ten seconds at most.
  await onA.waitFor(await onA.upsert('knowledgebase', points))
  const applied = await onA.upsert('posts', points, { wait: true })
  expect(applied.status).toBe('applied')
  const more = await onA.upsert('posts', [{ id: 'later', vector: axisVector(30), payload: { axis: 30 } }])
  const after = more.operation_id
  const found = await onB.search({ collection: 'posts', vector: axisVector(30), limit: 1, after })
  expect(found.results).toEqual([{ id: 'later', score: expect.closeTo(1), payload: { axis: 30 } }])
  expect(await onB.count('posts', { after })).toBe(4)
  const scrolled: string[] = []
  for await (const { id } of onB.scrollAll({ collection: 'posts', limit: 2 })) scrolled.push(id)
  expect(scrolled.sort()).toEqual(['later', 'p0', 'p10', 'p20'])
  const deleted = await onB.delete('posts', ['later', 'p0'])
  await expect(onA.get('posts', 'later', { after: deleted.operation_id })).rejects.toMatchObject({
    code: 'point_not_found',
  })
  expect((await onA.get('posts', 'p10')).vector[10]).toBeCloseTo(1)
  expect(await onA.waitFor(deleted)).toMatchObject({ status: 'applied' })
})

test('one request id leads from the answer through the records to the audit note', async () => {
  const requestId = `way-${randomUUID()}`
  const written = await call(platform.gateways[0].vectorUrl, '/v1/vectors/upsert?wait=true', {
    key: await onA.apiKey(),
    headers: { 'x-request-id': requestId },
    body: { collection: 'knowledgebase', points: [{ id: 'traced', vector: axisVector(5) }] },
  })
  expect([written.status, written.headers.get('x-request-id')]).toEqual([200, requestId])
  const commands = await platform.command<Tailed>(
    ...['topics', 'tail', 'vectors.commands', '--key', 'knowledgebase/traced'],
  )
  expect(commands.records.map((record) => record.headers)).toEqual([
    expect.objectContaining({ 'request-id': requestId, agent: 'whale' }),
  ])
  const note = await eventually(
    'the audit note',
    async () => {
      const must = [{ key: 'request_id', match: { value: requestId } }]
      const { points } = await onB.scroll({ collection: 'fleet_notes', filter: { must } })
      return points.find((point) => point.payload?.outcome === 'ok')
    },
    60_000,
  )
  expect(note.payload).toMatchObject({
    tags: ['auth', 'vector', 'whale'],
    operation: 'upsert',
    collection: 'knowledgebase',
    status_code: 200,
  })
  // Looking for the note has left records of its own.
  const last = ['--last', '10000']
  const events = await platform.command<Tailed>('topics', 'tail', 'audit.events', '--key', 'whale', ...last)
  const own = events.records.filter((record) => record.headers['request-id'] === requestId)
  expect(own.map((record) => record.value?.phase)).toEqual(['begun', 'ended'])
  expect(note.id).toBe(`audit-${own[0]?.value?.event_id}`)
})

test('commands of a further process see how far the groups are and what each engine says', async () => {
  const caughtUp = async () => {
    const lag = await platform.command<{ groups: { group: string; members: number; lag: number }[] }>('lag')
    return lag.groups.every((group) => group.lag === 0) ? lag.groups : undefined
  }
  const groups = await eventually('every group has caught up', caughtUp, 60_000)
  const members = new Map(groups.map((group) => [group.group, group.members]))
  expect(members.get('vector-writer')).toBe(platform.separate ? 2 : 1)
  expect(members.get('audit-writer')).toBe(1)
  const doctor = await platform.command<{ ok: boolean; checks: { check: string; status: string }[] }>(
    'doctor',
  )
  expect(doctor.checks.filter((check) => check.status !== 'ok')).toEqual([])
})

test('a record that nobody can read becomes a dead letter of each writer, and an operator discards both', async () => {
  const list = async () =>
    (await platform.command<{ dead_letters: { topic: string; recordKey: string }[] }>('dead-letters', 'list'))
      .dead_letters
  expect(await list()).toEqual([])
  const kafka = new Kafka({ brokers: platform.servers.brokers, logLevel: logLevel.NOTHING })
  const producer = kafka.producer()
  await producer.connect()
  await producer.send({ topic: 'vectors.commands', messages: [{ key: 'posts/junk', value: 'junk' }] })
  await producer.disconnect()
  const letters = await eventually('a dead letter of each writer', async () => {
    const found = await list()
    return found.length > 1 && found
  })
  const junk = { topic: 'vectors.commands', recordKey: 'posts/junk' }
  expect(letters).toMatchObject([junk, junk])
  await platform.command('dead-letters', 'discard', '--topic', 'vectors.commands')
  expect(await list()).toEqual([])
})

test('when the command that deletes an agent returns, its keys are dead on every gateway', async () => {
  const file = await platform.provision('gone')
  const key = await platform.clientOf(platform.gateways[0], 'gone', file).apiKey()
  const counts = () =>
    Promise.all(
      platform.gateways.map(({ vectorUrl }) =>
        call(vectorUrl, '/v1/vectors/count?collection=posts', { key }),
      ),
    )
  expect((await counts()).map((answer) => answer.status)).toEqual([200, 200])
  await platform.command('agents', 'delete', 'gone')
  expect((await counts()).map((answer) => [answer.status, answer.json.code])).toEqual([
    [401, 'unauthorized'],
    [401, 'unauthorized'],
  ])
})

test('a vector-writer is killed in the midst of upserts: the other takes over, and all that was accepted is applied', async ({
  skip,
}) => {
  if (!platform.separate) return skip('no qdrant executable')
  const accepted: { id: string; n: number; operation: string }[] = []
  const write = async (client: Client, from: number) => {
    for (let n = from; n < 400; n += 2) {
      const id = `k${n}`
      const answer = await client.upsert('almemsha', [{ id, vector: axisVector(n), payload: { n } }])
      accepted.push({ id, n, operation: answer.operation_id })
    }
  }
  const writing = Promise.all([write(onA, 0), write(onB, 1)])
  await eventually('half is accepted', () => accepted.length >= 200, 60_000)
  platform.writers[0].child.kill('SIGKILL')
  await writing
  expect(accepted).toHaveLength(400)
  for (const [at, { operation }] of accepted.entries()) {
    const state = await (at % 2 ? onA : onB).waitFor(operation, { timeoutMs: 120_000 })
    expect(state.status).toBe('applied')
  }
  const ids = accepted.map(({ id }) => id)
  const { points, missing } = await onB.getMany('almemsha', ids)
  expect(missing).toEqual([])
  for (const { id, vector, payload } of points) {
    const n = Number(id.slice(1))
    expect([id, payload, vector[n]]).toEqual([id, { n }, expect.closeTo(1)])
  }
  expect(await onA.count('almemsha')).toBe(400)
}, 240_000)

test('SIGTERM drains every process, which then ends with 0', async () => {
  const left = new Set(platform.all.filter((one) => one.child.signalCode === null))
  for (const one of left) one.child.kill('SIGTERM')
  const codes = await Promise.all([...left].map((one) => one.finished))
  expect(codes).toEqual(new Array(left.size).fill(0))
}, 60_000)
