/** Real engines go away under a running platform, one after the other, and come back: what it accepted is applied. */

import { afterAll, afterEach, beforeAll, expect, test } from 'vitest'
import { type Client, createClient } from '#client/client.ts'
import { type Gate, openGate } from '../support/distributed-gate.ts'
import {
  createProcesses,
  type Processes,
  type ServiceProcess,
  untilReady,
  withAddress,
} from '../support/distributed-process.ts'
import { type DistributedServers, openDistributedServers } from '../support/distributed-servers.ts'
import { checkWriters, startWriter, type Writer, waitUntilApplied } from '../support/distributed-writer.ts'
import { eventually } from '../support/eventually.ts'
import { type BareCall, call } from '../support/gateway-call.ts'
import { axisVector } from '../support/points.ts'

let servers: DistributedServers
let postgres: Gate
let registry: Gate
let processes: Processes
let platform: ServiceProcess
let client: Client
let writers: Writer[]

beforeAll(async () => {
  servers = await openDistributedServers()
  const env = await servers.newEnvironment()
  postgres = await openGate(env.DATABASE_URL as string)
  registry = await openGate(env.SCHEMA_REGISTRY_URL as string)
  processes = createProcesses({ ...env, DATABASE_URL: postgres.url, SCHEMA_REGISTRY_URL: registry.url })
  platform = await processes.start([])
  const args = ['agents', 'provision', '--agent-id', 'whale', '--tier', 'infra-architect']
  const { private_key_file } = await processes.run<{ private_key_file: string }>(args, platform.home)
  const given = { agentId: 'whale', privateKeyFile: private_key_file }
  client = createClient({ ...given, vectorUrl: platform.vectorUrl })
  const exact = servers.qdrant === null
  writers = ['w1', 'w2'].map((name) =>
    startWriter({ client, name, collection: 'posts', wait: false, exact, pauseMs: 10 }),
  )
})

afterEach(async (context) => {
  if (context.task.result?.state === 'fail') console.error(platform.output().slice(-6_000))
})

afterAll(async () => {
  await Promise.all((writers ?? []).map((writer) => writer.stop().catch(() => {})))
  await processes?.close()
  postgres?.cut()
  registry?.cut()
  await servers?.close()
})

const acknowledged = () => writers.reduce((sum, writer) => sum + writer.acknowledged(), 0)

async function goesOn(): Promise<void> {
  const before = acknowledged()
  await eventually('writing goes on', () => acknowledged() > before + 20, 90_000)
}

async function send(path: string, given: BareCall = {}) {
  const begun = Date.now()
  const answer = await call(platform.vectorUrl, path, { key: await client.apiKey(), ...given })
  return { ...answer, tookMs: Date.now() - begun }
}
const vector = axisVector(3)
const upsert = (query = '') =>
  send(`/v1/vectors/upsert${query}`, { body: { collection: 'knowledgebase', points: [{ id: 'a', vector }] } })
const search = () => send('/v1/vectors/search', { body: { collection: 'knowledgebase', vector } })
const handshake = () => send('/v1/auth/handshake', { body: { agent_id: 'whale', nonce: 'ab'.repeat(16) } })
async function done(asked: ReturnType<typeof send>, status: number): Promise<void> {
  const { json, ...answer } = await asked
  expect([answer.status, json.code]).toEqual([status, undefined])
}
const deadLetters = async () =>
  (await processes.run<{ dead_letters: unknown[] }>(['dead-letters', 'list'], platform.home)).dead_letters

/** Two seconds are promised; the rest is for a machine that has more to do. */
const promptMs = 4_000

test('Postgres is away: held keys go on, handshakes are asked to come again', async () => {
  await goesOn()
  postgres.cut()
  // A held key counts while the gateway hears of changed agents; on a busy machine it is deaf for a moment.
  for (let n = 0; n < 5; n++) {
    await eventually('a search with a held key', async () => (await search()).status === 200)
    await eventually('an upsert with a held key', async () => (await upsert()).status === 202)
  }
  await eventually('an upsert is applied', async () => (await upsert('?wait=true')).status === 200)
  const refused = await handshake()
  expect([refused.status, refused.json.code]).toEqual([503, 'relational_engine_unavailable'])
  expect(refused.json.retryAfter).toBeGreaterThan(0)
  await postgres.mend()
  await eventually('handshakes are answered', async () => (await handshake()).status === 200, 60_000)
  await goesOn()
}, 120_000)

test('the registry is away: what is known of schemas is enough', async () => {
  registry.cut()
  await done(upsert('?wait=true'), 200)
  await done(search(), 200)
  await registry.mend()
}, 60_000)

test('Kafka is killed: writes and audited reads are refused at once, and all goes on when it is back', async () => {
  await goesOn()
  await servers.kafka.kill9(1)
  for (const refused of [await upsert(), await search(), await upsert('?wait=true')]) {
    expect([refused.status, refused.json.code]).toEqual([503, 'log_unavailable'])
    expect(refused.json.retryAfter).toBeGreaterThan(0)
    expect(refused.headers.get('retry-after')).toMatch(/^\d+$/)
    expect(refused.tookMs).toBeLessThan(promptMs)
  }
  const sick = async () => (await client.health()).components.event_log.status === 'fail'
  await eventually('health tells it', sick)
  await servers.kafka.start(1)
  const back = Date.now()
  await goesOn()
  const written = Date.now()
  await eventually('an upsert is applied', async () => (await upsert('?wait=true')).status === 200, 90_000)
  console.error(
    `after Kafka is back: writes after ${written - back} ms, applied after ${Date.now() - back} ms`,
  )
  await eventually('health is well', async () => (await client.health()).status === 'pass', 60_000)
}, 240_000)

test('Qdrant is killed: writes are accepted, reads are asked to come again, nothing is parked', async ({
  skip,
}) => {
  if (!servers.qdrant) return skip('no qdrant executable')
  await servers.qdrant.kill9()
  const accepted: string[] = []
  for (let n = 0; n < 20; n++) {
    const answer = await upsert()
    expect(answer.status).toBe(202)
    accepted.push(answer.json.operation_id as string)
  }
  const reads = [
    search(),
    send('/v1/vectors/count?collection=posts'),
    send('/v1/vectors/get?collection=posts&id=a'),
  ]
  for (const refused of await Promise.all(reads)) {
    expect([refused.status, refused.json.code]).toEqual([503, 'vector_engine_unavailable'])
    expect(refused.json.retryAfter).toBeGreaterThan(0)
  }
  await goesOn()
  expect(await client.operation(accepted[0] as string)).toMatchObject({ status: 'accepted' })
  await servers.qdrant.start()
  for (const id of accepted) {
    expect((await client.waitFor(id, { timeoutMs: 90_000 })).status).toBe('applied')
  }
  await done(search(), 200)
  expect(await deadLetters()).toEqual([])
}, 180_000)

test('after all of it every accepted operation is applied, and every point is as it was last written', async () => {
  await Promise.all(writers.map((writer) => writer.stop()))
  const operations = writers.reduce((sum, writer) => sum + writer.accepted.length, 0)
  expect(operations).toBe(acknowledged())
  await waitUntilApplied(client, writers)
  const { faults, present } = await checkWriters(client, 'posts', writers)
  expect(faults).toEqual([])
  expect(await client.count('posts')).toBe(present)
  expect(await deadLetters()).toEqual([])
  console.error(`${acknowledged()} operations accepted, ${present} points`)
}, 180_000)

test('a platform that is started while its engines are away becomes ready when they come', async () => {
  const { home } = platform
  platform.child.kill('SIGTERM')
  expect(await platform.finished).toBe(0)
  await servers.kafka.kill9(1)
  postgres.cut()
  registry.cut()
  const waiting = processes.spawn([], { home })
  await eventually('it waits', () => /waiting/.test(waiting.output()), 60_000)
  await postgres.mend()
  await registry.mend()
  await servers.kafka.start(1)
  await untilReady(waiting)
  platform = withAddress(waiting)
  await eventually('it serves', async () => (await upsert('?wait=true')).status === 200, 60_000)
  platform.child.kill('SIGTERM')
  expect(await platform.finished).toBe(0)
}, 240_000)
