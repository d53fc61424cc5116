/** Promises about all data that an earlier version wrote, whatever the engines; on a fixture of each version. */

import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { createClient, type JsonValue } from '#client/client.ts'
import { referenceAgents } from '#services/runs/reference-node/roster.ts'
import { seededVector } from '../../scripts/upgrade/content.ts'
import type {
  FixtureAgent,
  FixtureDelivery,
  FixtureGroup,
  FixtureLetter,
  FixturePoint,
  FixtureTarget,
  FixtureWebhookLetter,
} from '../../scripts/upgrade/manifest.ts'
import { eventually } from '../support/eventually.ts'
import { fixtureNames, type UpgradeStack } from '../support/upgrade-stack.ts'
import {
  arrivedAt,
  byCollection,
  canonical,
  clientOf,
  cosine,
  idsOf,
  openUpgradeWorld,
  type UpgradeWorld,
} from '../support/upgrade-world.ts'

type Letters<T> = { dead_letters: T[] }

/** Groups of versions before that nobody reads with any more. */
const gone: ReadonlySet<string> = new Set(['run-dispatcher'])

/** Commands are processes of their own, and both starts and they may have to wait for a busy machine. */
const timeout = 120_000

export function describeUpgrades(
  open: (name: string) => Promise<UpgradeStack>,
  names: readonly string[] = fixtureNames(),
): void {
  describe.each(names)('what version %s wrote', { timeout }, (name) => {
    const opened = openUpgradeWorld(() => open(name))
    describePlaces(opened)
    describePoints(opened)
    describeAgents(opened)
    describeHub(opened)
    describeWebhooks(opened)
    describeGoingOn(opened)
  })
}

function describePlaces(opened: () => UpgradeWorld): void {
  it('every group is where it was, and pending events are still pending', () => {
    const { stack, before } = opened()
    const place = ({ group, topic, partitions }: FixtureGroup) => ({
      group,
      topic,
      committed: partitions.map(({ partition, committed }) => [partition, committed]),
    })
    const known = before.groups.filter(({ group }) => stack.groups.some((one) => one.group === group))
    const read = stack.groups.filter(({ group }) => !gone.has(group))
    expect(known.map(place)).toEqual(read.map(place))
    // A group that came since begins with its topic.
    for (const { group, partitions } of before.groups.filter((one) => !known.includes(one))) {
      for (const { committed } of partitions) expect([group, committed ?? 0]).toEqual([group, 0])
    }
    const waiting = (one: FixtureTarget) => ({ target: one.target, partition: one.partition })
    expect(before.standings).toMatchObject(stack.targets.map(waiting))
    for (const { target, pending } of stack.targets) {
      const lag = before.standings.find((one) => one.target === target)?.lag ?? 0
      expect(lag, target).toBeGreaterThanOrEqual(pending.length)
      expect(lag > 0, target).toBe(pending.length > 0)
    }
  })

  it('ids of operations from then say that they are applied', async () => {
    const { stack, keeper } = opened()
    const states = await Promise.all(stack.operations.map((id) => keeper.operation(id)))
    expect(states).toEqual(stack.operations.map((operation_id) => ({ operation_id, status: 'applied' })))
  })
}

function describePoints(opened: () => UpgradeWorld): void {
  it('every point has the payload and the vector that were written last', async () => {
    const { stack, keeper } = opened()
    for (const [collection, written] of byCollection(stack.points)) {
      const { points, missing } = await keeper.getMany(
        collection,
        written.map(({ id }) => id),
      )
      expect(missing).toEqual([])
      const found = new Map(points.map((point) => [point.id, point]))
      for (const { id, seed, payload } of written) {
        const point = found.get(id)
        expect([id, canonical(point?.payload)]).toEqual([id, canonical(payload)])
        expect(cosine(point?.vector ?? [], seededVector(seed)), id).toBeCloseTo(1, 5)
      }
    }
  })

  it('scroll and count find these and no deleted one', async () => {
    const { stack, keeper } = opened()
    for (const [collection, written] of byCollection(stack.points)) {
      const ids = await idsOf(keeper, collection)
      const own = ids.filter((id) => !/^(audit|note)-/.test(id))
      expect(own.sort()).toEqual(written.map(({ id }) => id).sort())
      if (own.length === ids.length) expect(await keeper.count(collection)).toBe(written.length)
    }
    for (const [collection, gone] of byCollection(stack.deleted)) {
      const ids = gone.map(({ id }) => id)
      expect((await keeper.getMany(collection, ids)).missing.sort()).toEqual([...ids].sort())
    }
  })

  it('search finds each point by its vector, and those of a filter', async () => {
    const { stack, keeper } = opened()
    for (const { collection, id, seed } of stack.points) {
      const { results } = await keeper.search({ collection, vector: seededVector(seed), limit: 1 })
      expect(results).toMatchObject([{ id, score: expect.closeTo(1, 4) }])
    }
    const drafts = stack.points.filter(({ payload }) => payload.status === 'draft')
    const filter = { must: [{ key: 'status', match: { value: 'draft' } }] }
    const search = { collection: 'knowledgebase', vector: seededVector(drafts[0]!.seed), limit: 1_000 }
    const { results } = await keeper.search({ ...search, filter })
    expect(results.map(({ id }) => id).sort()).toEqual(drafts.map(({ id }) => id).sort())
  })

  it('search-pg finds the same in the mirror, by columns and by vector', async () => {
    const { stack, keeper } = opened()
    const vector = seededVector(stack.points[0]!.seed)
    const { results: all } = await keeper.searchPg({ vector, limit: 1_000, withPayload: true })
    const name = ({ collection, id }: { collection?: string; id: string }) => `${collection}/${id}`
    const own = all.filter(({ id }) => !id.startsWith('note-'))
    expect(own.map(name).sort()).toEqual(stack.points.map(name).sort())
    expect(all[0]).toMatchObject({ id: stack.points[0]!.id, score: expect.closeTo(1, 4) })
    const runbooks = stack.points.filter(({ payload }) => tagsOf(payload).includes('runbook'))
    const filterSql = "'runbook' = ANY(tags) AND mind_path LIKE 'runbooks/%' AND updated_at >= '2026-01-01'"
    const { results } = await keeper.searchPg({ vector, limit: 1_000, filterSql })
    expect(results.map(name).sort()).toEqual(runbooks.map(name).sort())
  })

  it('the audit notes are there, word for word, and can be searched', async () => {
    const { stack, keeper } = opened()
    const ids = stack.audit_notes.map(({ id }) => id)
    const { points } = await keeper.getMany('fleet_notes', ids)
    const payloads = new Map(points.map(({ id, payload }) => [id, canonical(payload)]))
    for (const { id, payload } of stack.audit_notes) expect(payloads.get(id)).toBe(canonical(payload))
    const note = points[0]!
    const search = { collection: 'fleet_notes', vector: note.vector, limit: 1_000 }
    const filter = { must: [{ key: 'request_id', match: { value: note.payload.request_id as string } }] }
    expect((await keeper.search({ ...search, filter })).results.map(({ id }) => id)).toContain(note.id)
  })
}

function describeAgents(opened: () => UpgradeWorld): void {
  it('the agents are those, with their keys, tiers and quotas', async () => {
    const { stack } = opened()
    const { agents } = await stack.command<{ agents: FixtureAgent[] }>('agents', 'list')
    // The first start of a version with reference nodes provisions theirs.
    const own = agents.filter(({ agent_id }) => !referenceAgents.some(({ slug }) => slug === agent_id))
    expect(own).toMatchObject(stack.agents)
    expect(own).toHaveLength(stack.agents.length)
  })

  it('a key in force opens the gateway; one that was rotated or deleted does not', async () => {
    const { stack, platform } = opened()
    for (const { agent_id, file, in_force } of stack.keys) {
      const privateKeyFile = join(stack.home, file)
      const client = createClient({ vectorUrl: platform.vectorUrl, agentId: agent_id, privateKeyFile })
      const asked = client.count('posts')
      if (in_force) await expect(asked, file).resolves.toBeGreaterThan(0)
      else await expect(asked, file).rejects.toMatchObject({ status: 401 })
      await client.close()
    }
  })
}

function describeHub(opened: () => UpgradeWorld): void {
  it('notes and goals are those, and each note is found by a search', async () => {
    const { stack, keeper } = opened()
    const { notes = [], goals = [] } = stack
    expect(await stack.command('notes', 'list')).toMatchObject({ notes })
    expect(await stack.command('goals', 'list')).toMatchObject({ goals })
    const ids = notes.map(({ id }) => `note-${id}`)
    if (ids.length > 0) expect((await keeper.getMany('fleet_notes', ids)).missing).toEqual([])
  })
}

function describeWebhooks(opened: () => UpgradeWorld): void {
  it('pending events are delivered under their sequences, in order, and nothing comes twice', async () => {
    const { stack, sink } = opened()
    const isThere = ({ target, pending }: FixtureTarget) => arrivedAt(sink, target).length >= pending.length
    await eventually('all of it is delivered', () => stack.targets.every(isThere), 100_000)
    for (const { target, pending } of stack.targets) {
      const arrived = arrivedAt(sink, target)
      // Some lanes go side by side: only the order of an agent is promised by all targets.
      for (const agent of new Set(pending.map((one) => one.agent))) {
        const own = (one: FixtureDelivery) => one.agent === agent
        expect(arrived.filter(own), target).toEqual(pending.filter(own))
      }
      expect(arrived, target).toHaveLength(pending.length)
    }
  })

  it('dead letters are listed; one is replayed under its sequence, and one is discarded', async () => {
    const { stack, sink } = opened()
    const list = async () =>
      (await stack.command<Letters<FixtureWebhookLetter>>('webhooks', 'dead-letters', 'list')).dead_letters
    expect(await list()).toMatchObject(stack.webhook_dead_letters)
    const [replayed, discarded, ...rest] = stack.webhook_dead_letters
    const treat = (what: string, { target, sequence }: FixtureWebhookLetter) =>
      stack.command('webhooks', 'dead-letters', what, '--target', target, '--sequence', String(sequence))
    await treat('replay', replayed!)
    const { target, sequence, agent, task_id } = replayed!
    const replays = () => sink.received.filter((one) => one.replay)
    await eventually('the replayed one is delivered', () => replays().length > 0, 100_000)
    expect(replays()).toMatchObject([{ path: `/${target}`, sequence }])
    expect(JSON.parse(String(replays()[0]?.body))).toMatchObject({ agent, task_id })
    await treat('discard', discarded!)
    expect(await list()).toMatchObject(rest)
    expect(await list()).toHaveLength(rest.length)
  })

  it('dead letters of the writers are listed', async () => {
    const { stack } = opened()
    const { dead_letters } = await stack.command<Letters<FixtureLetter>>('dead-letters', 'list')
    const ofWorkers = dead_letters.filter(({ topic }) => topic !== 'webhooks.deliveries')
    expect(ofWorkers).toMatchObject(stack.worker_dead_letters)
    expect(ofWorkers).toHaveLength(stack.worker_dead_letters.length)
  })
}

function describeGoingOn(opened: () => UpgradeWorld): void {
  it('the platform goes on: new points, new agents, new events with higher sequences, new audit notes', async () => {
    const { stack, platform, keeper, sink } = opened()
    const point = { id: 'post-000', vector: seededVector(1), payload: { title: 'Written after the upgrade' } }
    const { operation_id, status } = await keeper.upsert('posts', [point], { wait: true })
    expect(status).toBe('applied')
    expect(await keeper.get('posts', 'post-000')).toMatchObject({ payload: point.payload })
    const mirrored = await keeper.searchPg({
      vector: point.vector,
      limit: 1,
      after: operation_id,
      withPayload: true,
    })
    expect(mirrored.results).toMatchObject([{ id: 'post-000', payload: point.payload }])

    const volume = join(stack.home, 'agents', 'newcomer')
    await stack.command('agents', 'provision', '--agent-id', 'newcomer', '--volume', volume)
    const privateKeyFile = join(volume, 'ed25519.pem')
    const newcomer = createClient({ vectorUrl: platform.vectorUrl, agentId: 'newcomer', privateKeyFile })
    expect(await newcomer.count('posts')).toBe(
      stack.points.filter((one) => one.collection === 'posts').length,
    )
    await newcomer.close()

    const event = ['--event', 'task.completed', '--agent', 'NEXUS', '--task-id', 't-new']
    const relay = ['--webhook-url', platform.webhookUrl]
    const { deliveries } = await stack.command<{ deliveries: { target: string; sequence: number }[] }>(
      'webhooks',
      'fire',
      ...event,
      ...relay,
    )
    for (const { target, delivered, pending, parked } of stack.targets) {
      const { sequence } = deliveries.find((one) => one.target === target)!
      const known = [...[...delivered, ...pending].map((one) => one.sequence), ...parked]
      expect(sequence, target).toBeGreaterThan(Math.max(...known))
      const arrived = () => arrivedAt(sink, target).filter((one) => one.task_id === 't-new')
      await eventually(`${target} gets the new event`, () => arrived().length > 0, 100_000)
      expect(arrived()).toEqual([{ sequence, agent: 'NEXUS', task_id: 't-new' }])
    }

    const ofNewcomer = { must: [{ key: 'title', match: { value: 'count on posts by newcomer: ok' } }] }
    const noted = () => keeper.count('fleet_notes', { filter: ofNewcomer })
    expect(await eventually('its operation has an audit note', noted, 100_000)).toBe(1)
  })

  it('every group reads to the end', async () => {
    const { stack } = opened()
    await eventually(
      'nothing is left to read',
      async () => {
        const { groups } = await stack.command<{ groups: FixtureGroup[] }>('lag')
        return groups.every(({ lag }) => lag === 0)
      },
      100_000,
    )
  })

  it('it stops in order, and a second start finds everything, too', async () => {
    const { stack, platform } = opened()
    platform.child.kill('SIGTERM')
    expect(await platform.finished).toBe(0)
    const again = await stack.start()
    const keeper = clientOf(stack, again, 'keeper')
    for (const [collection, written] of byCollection(stack.points)) {
      const ids = written.map(({ id }) => id)
      expect((await keeper.getMany(collection, ids)).missing).toEqual([])
    }
    await keeper.close()
    again.child.kill('SIGTERM')
    expect(await again.finished).toBe(0)
  })
}

function tagsOf({ tags }: FixturePoint['payload']): JsonValue[] {
  return Array.isArray(tags) ? tags : []
}
