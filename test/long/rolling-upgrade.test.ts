/**
 * Two versions at the same time on one Kafka, registry and Postgres: every instance of an earlier version is replaced by one
 * of this checkout, one after the other, and then by the earlier version again, while agents work at all of them.
 */

import { mkdtempSync, rmSync } from 'node:fs'
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

const timeout = 400_000
/** Of one request. */
const idsMax = 100

describe.each(versionNames())('version %s and this one', { timeout }, (name) => {
  let before: Awaited<ReturnType<typeof unpackVersion>>
  let volumes: string
  let platform: RollingPlatform
  let traffic: Traffic
  let agent: Agent
  beforeAll(async () => {
    before = await unpackVersion(name)
    volumes = mkdtempSync(join(tmpdir(), 'fl-'))
    platform = await openRollingPlatform(before)
    agent = await provision(before, 'atlas')
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

  /** Workers first, as docs/upgrading.md has it; `halfway` both versions serve requests. */
  async function replaceAll(version: Version, halfway: () => Promise<void>): Promise<void> {
    const [front, otherFront] = platform.fronts
    for (const one of [...platform.workers, front]) {
      await one.replace(version)
      await traffic.round()
    }
    await halfway()
    await otherFront.replace(version)
    await traffic.round()
  }

  /** What one instance gave is good at the other: keys, tokens, idempotency keys, ids of operations. */
  async function holdsAt(giver: Instance, taker: Instance): Promise<void> {
    const title = `from ${giver.version} to ${taker.version}`
    const { key: agentKey } = await platform.command<{ key: string }>(before, 'agent-keys', 'issue', 'atlas')
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
      expect((await call(taker.vectorUrl, '/v1/vectors/count?collection=posts', { key })).status, title).toBe(
        200,
      )
      const me = await call(taker.baseUrl, '/api/v1/me', { key: await api.idToken() })
      expect([me.status, me.json.data], title).toEqual([200, expect.objectContaining({ slug: 'atlas' })])
    } finally {
      await Promise.all([atGiver, atTaker, api].map((one) => one.close()))
    }
  }

  test('instance after instance is replaced by this version while agents work', async () => {
    await replaceAll(today, async () => {
      const [ofToday, ofBefore] = platform.fronts
      expect([ofToday.version, ofBefore.version]).toEqual([today.name, before.name])
      await holdsAt(ofToday, ofBefore)
      await holdsAt(ofBefore, ofToday)
    })
  })

  test('and back again: the earlier version goes on with what this one wrote', async () => {
    const scout = await provision(today, 'scout')
    await replaceAll(before, async () => {
      const [ofBefore, ofToday] = platform.fronts
      expect([ofBefore.version, ofToday.version]).toEqual([before.name, today.name])
      await holdsAt(ofToday, ofBefore)
      await holdsAt(ofBefore, ofToday)
    })
    const client = createClient({ ...platform.fronts[0], ...scout })
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

  test('no instance ended by itself or wrote of a fault, nothing was parked, every group has read all', async () => {
    expect(platform.faults()).toEqual([])
    for (const version of [before, today]) {
      const parked = await platform.command<{ dead_letters: unknown[] }>(version, 'dead-letters', 'list')
      expect(parked.dead_letters).toEqual([])
      const given = await platform.command<{ dead_letters: unknown[] }>(
        version,
        'webhooks',
        'dead-letters',
        'list',
      )
      expect(given.dead_letters).toEqual([])
      await eventually(
        `every group has read all, says ${version.name}`,
        async () => {
          const { groups } = await platform.command<{ groups: { lag: number }[] }>(version, 'lag')
          return groups.every(({ lag }) => lag === 0)
        },
        60_000,
      )
    }
  })
})

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
    60_000,
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
    60_000,
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
    await eventually(`every event is at ${target}`, () => missing().length === 0, 60_000).catch(() => {})
    expect(missing(), `${arrived().length} arrived at ${target}`).toEqual([])
    const sequences = arrived().map(({ sequence }) => sequence)
    expect(sequences).toEqual([...sequences].sort((a, b) => a - b))
    for (const instance of new Set(fired.map((one) => one.instance))) {
      const first = [...new Set(tasksOf())].filter((task) => task.startsWith(`${instance}.`))
      expect(first).toEqual(fired.filter((one) => one.instance === instance).map(({ id }) => id))
    }
  }
}
