/**
 * Two versions at the same time on one Kafka, registry and Postgres, while agents work at all instances. Forward: instances
 * of an earlier version are replaced by this checkout, one after the other. Back: the other way round. A test file tries one
 * version and one way.
 */

import { existsSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type Client, createClient, createMainApi } from '#client/client.ts'
import { eventually } from '../support/eventually.ts'
import { call } from '../support/gateway-call.ts'
import { axisVector } from '../support/points.ts'
import {
  type Instance,
  openRollingPlatform,
  type RollingPlatform,
  targets,
} from '../support/rolling-platform.ts'
import { type Agent, type Kind, startTraffic, type Traffic } from '../support/rolling-traffic.ts'
import { today, unpackVersion, type Version, versionNames } from '../support/rolling-version.ts'

/** Only ends a hang. */
const timeout = 600_000
const settleMs = 120_000
/** Ids in one request. */
const idsMax = 100

/** `back` begins with this checkout, on a database that the earlier version made. */
export type Way = 'forward' | 'back'

const ways: Way[] = ['forward', 'back']

/** Declares the tests of one way between this checkout and an earlier version. */
export function rollingUpgrade(name: string, way: Way): void {
  describe(`${way}: version ${name} and this one`, { timeout }, () => declareTests(name, way))
}

function declareTests(name: string, way: Way): void {
  let before: Awaited<ReturnType<typeof unpackVersion>>
  let first: Version
  let second: Version
  let volumes: string
  let platform: RollingPlatform
  let traffic: Traffic
  let agent: Agent
  beforeAll(async () => {
    before = await unpackVersion(name)
    ;[first, second] = way === 'forward' ? [before, today] : [today, before]
    volumes = mkdtempSync(join(tmpdir(), 'fl-'))
    platform = await openRollingPlatform()
    agent = await provision(before, 'atlas')
    await platform.startAll(first)
    traffic = startTraffic(platform.fronts, agent)
    await traffic.round()
  }, timeout)
  afterAll(async () => {
    await traffic?.close()
    await platform?.close()
    before?.remove()
    rmSync(volumes, { recursive: true, force: true })
  })

  async function provision(version: Version, agentId: string): Promise<Agent> {
    const who = ['--agent-id', agentId, '--tier', 'infra-architect', '--access', 'admin']
    const args = ['agents', 'provision', ...who, '--volume', join(volumes, agentId)]
    const { private_key_file } = await platform.command<{ private_key_file: string }>(version, ...args)
    return { agentId, privateKeyFile: private_key_file }
  }

  test('a file tries each packed version each way', () => {
    const fileOf = (one: string, other: Way) => `rolling-upgrade-${one}-${other}.test.ts`
    const wanted = versionNames().flatMap((one) => ways.map((other) => fileOf(one, other)))
    expect(wanted.filter((file) => !existsSync(new URL(file, import.meta.url)))).toEqual([])
  })

  test('instance after instance is replaced while agents work', async () => {
    const { fronts, workers } = platform
    const [front, otherFront] = fronts
    // Workers first, as docs/upgrading.md has it.
    for (const one of [...workers, front]) {
      await one.replace(second)
      await traffic.round()
    }
    expect([front.version, otherFront.version]).toEqual([second.name, first.name])
    const { key } = await platform.command<{ key: string }>(before, 'agent-keys', 'issue', 'atlas')
    await Promise.all([holdsAt(front, otherFront, agent, key), holdsAt(otherFront, front, agent, key)])
    const scout = await provision(first, 'scout')
    await otherFront.replace(second)
    await traffic.round()
    const client = createClient({ ...front, ...scout })
    expect(await client.count('posts')).toBeGreaterThan(0)
    await client.close()
  })

  test('nothing that was acknowledged is lost, and events came in order', async () => {
    await traffic.stop()
    expect(traffic.surprises).toEqual([])
    const [client] = traffic.clients as [Client, Client]
    await expectPoints(client, traffic)
    await expectNotes(client, traffic)
    await expectRuns(client, traffic)
    await expectEvents(platform, traffic)
  })

  test('no instance ended by itself or logged a fault, nothing was parked, every group has read all', async () => {
    expect(platform.faults()).toEqual([])
    const said = await Promise.all([before, today].map((version) => aftermath(platform, version)))
    expect(said).toEqual([nothingLeft, nothingLeft])
  })
}

/** Things issued by one instance are good at the other: keys, tokens, idempotency keys, ids of operations. */
async function holdsAt(giver: Instance, taker: Instance, agent: Agent, agentKey: string): Promise<void> {
  const title = `from ${giver.version} to ${taker.version}`
  const [atGiver, atTaker] = [giver, taker].map((one) => createClient({ ...one, ...agent })) as [
    Client,
    Client,
  ]
  const api = createMainApi({ baseUrl: giver.baseUrl, agentKey })
  try {
    const id = title.replaceAll(' ', '-')
    const point = { id, vector: axisVector(1), payload: { title } }
    const given = await atGiver.upsert('posts', [point], { idempotencyKey: id })
    const repeated = await atTaker.upsert('posts', [point], { idempotencyKey: id })
    expect(repeated.operation_id, title).toBe(given.operation_id)
    const after = given.operation_id
    expect((await atTaker.get('posts', id, { after })).payload, title).toEqual({ title })
    const key = await atGiver.apiKey()
    const counted = await call(taker.vectorUrl, '/v1/vectors/count?collection=posts', { key })
    expect(counted.status, title).toBe(200)
    const me = await call(taker.baseUrl, '/api/v1/me', { key: await api.idToken() })
    expect([me.status, me.json.data], title).toEqual([200, expect.objectContaining({ slug: 'atlas' })])
  } finally {
    await Promise.all([atGiver, atTaker, api].map((one) => one.close()))
  }
}

type Lag = { group: string; lag: number }

/** The group of the dispatchers of older versions: those of today hear of runs otherwise, and nobody is left in it. */
const unread = 'run-dispatcher'

const nothingLeft = { parked: [], undelivered: [] }

/** Waits until every group has read all, then lists dead letters: both with the commands of a version. */
async function aftermath(platform: RollingPlatform, version: Version): Promise<typeof nothingLeft> {
  await eventually(
    `every group has read all, says ${version.name}`,
    async () => {
      const { groups } = await platform.command<{ groups: Lag[] }>(version, 'lag')
      return groups.every(({ group, lag }) => lag === 0 || group === unread)
    },
    settleMs,
  )
  type Letters = { dead_letters: never[] }
  const parked = await platform.command<Letters>(version, 'dead-letters', 'list')
  const undelivered = await platform.command<Letters>(version, 'webhooks', 'dead-letters', 'list')
  return { parked: parked.dead_letters, undelivered: undelivered.dead_letters }
}

function idsOf({ acknowledged }: Traffic, kind: Kind): string[] {
  return acknowledged.filter((one) => one.kind === kind).map(({ id }) => id)
}

/** Their payloads by id, once all of them are there. */
async function pointsOf(client: Client, collection: string, ids: string[]) {
  const found = new Map<string, Record<string, unknown>>()
  await eventually(
    `every point is in ${collection}`,
    async () => {
      const left = ids.filter((id) => !found.has(id)).slice(0, idsMax)
      const { points } = await client.getMany(collection, left)
      for (const { id, payload } of points) found.set(id, payload)
      return found.size === ids.length
    },
    settleMs,
  )
  return found
}

async function expectPoints(client: Client, traffic: Traffic): Promise<void> {
  for (const [id, { instance, n }] of await pointsOf(client, 'posts', idsOf(traffic, 'point'))) {
    expect(`${instance}-${n}`).toBe(id)
  }
  const last = Map.groupBy(
    traffic.acknowledged.filter(({ kind }) => kind === 'point'),
    ({ instance }) => instance,
  )
  for (const [instance, all] of last) {
    const latest = await client.get('posts', `${instance}-latest`)
    expect(latest.payload).toEqual({ n: all.at(-1)!.n })
  }
}

/** In the hub, and as points of the index and of the mirror. */
async function expectNotes(client: Client, traffic: Traffic): Promise<void> {
  const ids = idsOf(traffic, 'note')
  const listed = new Set<string>()
  for await (const { id } of client.notes.all({ limit: 1_000 })) listed.add(String(id))
  expect(ids.filter((id) => !listed.has(id))).toEqual([])
  await pointsOf(
    client,
    'fleet_notes',
    ids.map((id) => `note-${id}`),
  )
}

/** Each was answered to its end when it was acknowledged; the orchestrator gets a report of each. */
async function expectRuns(client: Client, traffic: Traffic): Promise<void> {
  await eventually(
    'every run is over, the reports too',
    async () => {
      const { runs } = await client.runs.list({ status: 'queued', limit: 1 })
      return runs.length === 0 && (await client.runs.list({ status: 'running', limit: 1 })).runs.length === 0
    },
    settleMs,
  )
  const left = new Set(idsOf(traffic, 'run'))
  const otherwise: string[] = []
  for await (const { runId, appName, status, error } of client.runs.all({ limit: 1_000 })) {
    if (status !== 'completed') otherwise.push(`${appName} ${runId} ${status}: ${error?.message}`)
    left.delete(runId)
  }
  expect([otherwise, [...left]]).toEqual([[], []])
}

/** To every target: all events, those of an agent in the order in which they were fired, sequences upwards. */
async function expectEvents({ sink }: RollingPlatform, traffic: Traffic): Promise<void> {
  const fired = traffic.acknowledged.filter(({ kind }) => kind === 'event')
  for (const target of targets) {
    const arrived = () => sink.received.filter(({ path }) => path === `/${target}`)
    const tasksOf = () =>
      arrived().map(({ body }) => (JSON.parse(body.toString()) as { task_id: string }).task_id)
    const missing = () => {
      const tasks = new Set(tasksOf())
      return fired.map(({ id }) => id).filter((id) => !tasks.has(id))
    }
    const all = eventually(`every event is at ${target}`, () => missing().length === 0, settleMs)
    expect(await all.then(() => [], missing), `${arrived().length} arrived at ${target}`).toEqual([])
    const sequences = arrived().map(({ sequence }) => sequence)
    expect(sequences).toEqual([...sequences].sort((a, b) => a - b))
    for (const instance of new Set(fired.map((one) => one.instance))) {
      const first = [...new Set(tasksOf())].filter((task) => task.startsWith(`${instance}.`))
      expect(first).toEqual(fired.filter((one) => one.instance === instance).map(({ id }) => id))
    }
  }
}
