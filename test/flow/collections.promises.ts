/** Collections of one's own: made, written, searched, deleted, made again, over restarts, rebuilds and two instances. */

import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest'
import { createClient } from '#client/client.ts'
import { createWakeup } from '#lib/backoff.ts'
import { rebuildVectorsAction } from '#operations/rebuild.ts'
import type { Platform } from '#runtime/start/platform.ts'
import { provisionAgent } from '#services/access/agents/agents.ts'
import { startPurging } from '#services/vectors/collections/purge.ts'
import { listDying } from '#services/vectors/collections/rows.ts'
import { vectorsCommands } from '#topics/catalog.ts'
import { eventually } from '../support/eventually.ts'
import { call } from '../support/gateway-call.ts'
import { operating } from '../support/operator.ts'
import { axisVector } from '../support/points.ts'
import { startedPlatform } from '../support/started-platform.ts'

type Environment = Record<string, string>
type Started = Awaited<ReturnType<typeof startedPlatform>>

const admin = { access: 'admin' } as const
const pointsOf = (count: number, from = 0) =>
  Array.from({ length: count }, (_, n) => ({
    id: `p${from + n}`,
    vector: axisVector(from + n),
    payload: { n },
  }))

/** Bare requests of the instance's agent. */
export async function requests({ client, vectorUrl }: Pick<Started, 'client' | 'vectorUrl'>) {
  const key = await client.apiKey()
  const ask = (method: string, path: string, body?: unknown) =>
    call(vectorUrl, path, { method, key, ...(body === undefined ? {} : { body }) })
  return {
    ask,
    create: (name: string, description?: string) =>
      ask('POST', '/v1/collections', { name, ...(description === undefined ? {} : { description }) }),
    remove: (name: string) => ask('DELETE', `/v1/collections/${name}`),
    upsert: (collection: string, points: unknown[]) =>
      ask('POST', '/v1/vectors/upsert?wait=true', { collection, points }),
    async count(collection: string) {
      const { status, json } = await ask('GET', `/v1/vectors/count?collection=${collection}`)
      return status === 200 ? json.count : status
    },
  }
}

/** The name that the newest making of a collection is stored under. */
async function storedOf({ engines }: Platform, name: string): Promise<string> {
  const { rows } = await engines.relational.query<{ making: string }>(
    'select making from platform.collections where name = $1 order by id desc limit 1',
    [name],
  )
  return `${name}~${rows[0]!.making}`
}

/** Keys of vectors.commands whose newest record has a value. */
export async function keysInLog({ engines, publisher }: Platform, prefix: string): Promise<string[]> {
  const { physicalName: topic } = publisher.locationOf(vectorsCommands)
  const present = new Map<string, boolean>()
  const tail = await engines.eventLog.tail({
    topic,
    from: 'beginning',
    records(_, records) {
      for (const { key, value } of records) present.set(key?.toString('utf8') ?? '', value !== null)
      return undefined
    },
  })
  try {
    const ends = await engines.eventLog.offsets(topic)
    await eventually('the log is read', () =>
      ends.every(
        ({ partition, start, end }) => end === start || (tail.positions().get(partition) ?? 0) >= end,
      ),
    )
  } finally {
    await tail.close()
  }
  return [...present].flatMap(([key, isThere]) => (isThere && key.startsWith(prefix) ? [key] : [])).sort()
}

/** Ends when everything that was deleted is gone; requests count as answered at once. */
async function purge(platform: Platform): Promise<void> {
  const purging = startPurging(platform, createWakeup(), 0)
  try {
    await eventually(
      'nothing is dying',
      async () => (await listDying(platform.engines.relational)).length === 0,
      120_000,
    )
  } finally {
    await purging.close()
  }
}

/** `engines` names empty engines, new ones at each call. */
export function describeCollections(driver: string, engines: () => Promise<Environment>): void {
  describe(`collections (${driver})`, () => {
    let env: Environment
    let started: Started
    let own: Awaited<ReturnType<typeof requests>>
    beforeAll(async () => {
      env = await engines()
      started = await startedPlatform(env, { mirror: true, agent: admin })
      own = await requests(started)
    })
    afterAll(() => started?.close())

    it('lists the four of the platform, which stay', async () => {
      const { status, json } = await own.ask('GET', '/v1/collections')
      const listed = json.collections as Record<string, unknown>[]
      expect(status).toBe(200)
      expect(listed.map(({ name }) => name)).toEqual(['fleet_notes', 'posts', 'knowledgebase', 'almemsha'])
      expect(Object.keys(listed[1]!).sort()).toEqual([
        'created_at',
        'created_by',
        'description',
        'name',
        'points',
      ])
      expect(listed[1]).toMatchObject({ points: 0, created_by: 'platform', description: null })
      expect(await own.remove('posts')).toMatchObject({ status: 409, json: { code: 'collection_fixed' } })
      expect((await own.create('posts')).json.code).toBe('collection_exists')
    })

    it('makes one, takes points at once, and shows it everywhere', async () => {
      const made = await own.create('tea-1', 'Of the shop')
      expect(made).toMatchObject({
        status: 201,
        json: {
          name: 'tea-1',
          description: 'Of the shop',
          points: 0,
          created_by: expect.stringMatching(/^agent-/),
        },
      })
      expect((await own.create('tea-1')).json.code).toBe('collection_exists')
      expect(await own.count('tea-1')).toBe(0)
      expect((await own.upsert('tea-1', pointsOf(3))).status).toBe(200)
      expect((await own.ask('GET', '/v1/collections/tea-1')).json).toMatchObject({ name: 'tea-1', points: 3 })
      const found = await started.client.search({ collection: 'tea-1', vector: axisVector(1), limit: 1 })
      expect(found.results).toEqual([{ id: 'p1', score: expect.closeTo(1), payload: { n: 1 } }])
      const stats = (await own.ask('GET', '/v1/stats')).json.collections as {
        collection: string
        points: number
      }[]
      expect(stats.find(({ collection }) => collection === 'tea-1')?.points).toBe(3)
      expect(await own.count('posts')).toBe(0)
      const page = await own.ask('POST', '/v1/vectors/scroll', { collection: 'tea-1', limit: 2 })
      expect(page.json).toMatchObject({ next_offset: expect.any(String), points: { length: 2 } })
      expect((await own.ask('GET', '/v1/vectors/get?collection=tea-1&id=p9')).json).toMatchObject({
        code: 'point_not_found',
        detail: expect.stringContaining('tea-1 has'),
      })
    })

    it.each(['', 'Tea', '-tea', '_tea', 'tea notes', 'tea/x', 'tea~0a1b2c3d4e', 'ä', 'a'.repeat(65)])(
      'refuses the name %j',
      async (name) => expect((await own.create(name)).status).toBe(422),
    )

    it('is unknown to every route where it was not made', async () => {
      const vector = axisVector(0)
      for (const [method, path, body] of [
        ['POST', '/v1/vectors/search', { collection: 'nothing', vector }],
        ['POST', '/v1/vectors/search/batch', { searches: [{ collection: 'nothing', vector }] }],
        ['POST', '/v1/vectors/upsert', { collection: 'nothing', points: [{ id: 'a', vector }] }],
        ['POST', '/v1/vectors/scroll', { collection: '__proto__' }],
        ['POST', '/v1/vectors/get', { collection: 'nothing', ids: ['a'] }],
        ['GET', '/v1/vectors/count?collection=nothing', undefined],
        ['DELETE', '/v1/vectors/delete', { collection: 'tea-1~0a1b2c3d4e', ids: ['a'] }],
        ['GET', '/v1/collections/nothing', undefined],
        ['DELETE', '/v1/collections/nothing', undefined],
      ] as const) {
        expect(await own.ask(method, path, body)).toMatchObject({
          status: 404,
          json: { code: 'collection_not_found' },
        })
      }
    })

    it('lets members make and admins delete', async () => {
      const { platform, vectorUrl } = started
      const member = await startedAgent(platform, vectorUrl, 'member')
      expect((await member.create('of-a-member')).status).toBe(201)
      expect((await member.remove('of-a-member')).json.code).toBe('forbidden')
      const viewer = await startedAgent(platform, vectorUrl, 'viewer')
      expect((await viewer.create('of-a-viewer')).json.code).toBe('forbidden')
      expect((await viewer.ask('GET', '/v1/collections/of-a-member')).status).toBe(200)
    })

    it('shows nothing of a deleted one, and is empty when it is made again, for late writes, too', async () => {
      await own.create('again')
      await own.upsert('again', pointsOf(300))
      const former = await storedOf(started.platform, 'again')
      expect(await own.remove('again')).toMatchObject({ status: 200, json: { name: 'again', deleted: true } })
      expect([await own.count('again'), (await own.remove('again')).status]).toEqual([404, 404])
      expect((await own.create('again')).status).toBe(201)
      expect(await own.count('again')).toBe(0)
      await own.upsert('again', pointsOf(2, 500))
      await writeLate(started.platform, former, 'late')
      const sentinel = await own.upsert('again', [{ id: 'p0', vector: axisVector(9) }])
      expect(sentinel.status).toBe(200)
      expect(await own.count('again')).toBe(3)
      await purge(started.platform)
      expect(await own.count('again')).toBe(3)
      expect(await keysInLog(started.platform, 'again~')).toEqual(
        ['p0', 'p500', 'p501'].map((id) => expect.stringMatching(`^again~[0-9a-f]{10}/${id}$`)),
      )
      // Much later: the writer deletes it by itself.
      await writeLate(started.platform, former, 'very late')
      await eventually(
        'the late write is deleted',
        async () => (await keysInLog(started.platform, former)).length === 0,
      )
      expect(await own.count('again')).toBe(3)
    })

    it('brings nothing back by a rebuild, and keeps what there is', async () => {
      await own.create('kept')
      await own.upsert('kept', pointsOf(5))
      await own.create('gone')
      await own.upsert('gone', pointsOf(5))
      const gone = await storedOf(started.platform, 'gone')
      await own.remove('gone')
      await rebuildVectorsAction.run(operating(started.platform, new AbortController().signal), {})
      expect([await own.count('kept'), await own.count('gone')]).toEqual([5, 404])
      await own.create('gone')
      expect(await own.count('gone')).toBe(0)
      await purge(started.platform)
      const { vectors } = started.platform.engines
      await eventually('the engine has nothing of it', async () =>
        (await vectors.stats()).every(({ collection }) => collection !== gone),
      )
    })

    it('is searched by SQL under its name, and only it', async () => {
      await own.create('sql')
      await own.upsert('sql', pointsOf(3))
      const before = await own.upsert('posts', [{ id: 'other', vector: axisVector(1) }])
      const search = async (filter_sql?: string) => {
        const after = before.json.operation_id
        const { json } = await own.ask('POST', '/v1/vectors/search-pg', {
          table: 'embeddings',
          vector: axisVector(1),
          limit: 100,
          after,
          ...(filter_sql === undefined ? {} : { filter_sql }),
        })
        const results = json.results as { collection: string; id: string }[]
        return [...new Set(results.map(({ collection }) => collection))].sort()
      }
      expect(await search("collection = 'sql'")).toEqual(['sql'])
      expect(await search("collection in ('sql', 'posts')")).toEqual(['posts', 'sql'])
      expect(await search("collection like 'sq_'")).toEqual(['sql'])
      expect(await search("collection <> 'sql' and collection in ('sql', 'posts')")).toEqual(['posts'])
      expect(await search(`collection = '${await storedOf(started.platform, 'sql')}'`)).toEqual([])
      expect(await search()).toContain('sql')
      await own.remove('sql')
      expect(await search()).not.toContain('sql')
      expect(await search("collection = 'sql'")).toEqual([])
      expect(await search("collection like 's%'")).toEqual([])
    })

    it('has room for 256, and each is there after a restart', async () => {
      const names = async () => {
        const { json } = await own.ask('GET', '/v1/collections')
        return (json.collections as { name: string }[]).map(({ name }) => name)
      }
      const before = (await names()).length
      for (let n = before; n < 256; n++) expect((await own.create(`many-${n}`)).status).toBe(201)
      expect(await own.create('one-more')).toMatchObject({
        status: 409,
        json: { code: 'too_many_collections', detail: expect.stringContaining('256') },
      })
      for (const n of [100, 150, 255]) expect((await own.upsert(`many-${n}`, pointsOf(2))).status).toBe(200)
      await started.close()
      started = await startedPlatform(env, { mirror: true, agent: admin })
      own = await requests(started)
      expect(await names()).toHaveLength(256)
      expect([await own.count('many-150'), await own.count('many-101')]).toEqual([2, 0])
      expect((await own.remove('many-150')).status).toBe(200)
      expect((await own.create('one-more')).status).toBe(201)
    })

    it('is there after a restart, and a deletion goes on', async () => {
      await own.remove('many-101')
      await own.remove('many-102')
      await own.create('lasting')
      await own.upsert('lasting', pointsOf(4))
      await own.create('leaving')
      await own.upsert('leaving', pointsOf(4))
      const leaving = await storedOf(started.platform, 'leaving')
      await own.remove('leaving')
      await started.close()
      started = await startedPlatform(env, { mirror: true, agent: admin })
      own = await requests(started)
      expect([await own.count('lasting'), await own.count('leaving')]).toEqual([4, 404])
      await purge(started.platform)
      expect(await keysInLog(started.platform, `${leaving}/`)).toEqual([])
    })
  })
}

async function startedAgent(
  { engines, instanceId }: Platform,
  vectorUrl: string,
  access: 'member' | 'viewer',
) {
  const agentId = `${access}-${instanceId}`
  const { privateKeyPem } = await provisionAgent(engines.relational, { agentId, access })
  const client = createClient({ vectorUrl, agentId, privateKeyPem })
  onTestFinished(() => client.close())
  return requests({ client, vectorUrl })
}

/** As a gateway does that knew the former making when its request began. */
async function writeLate({ publisher }: Platform, stored: string, id: string): Promise<void> {
  const vector = Buffer.from(Float32Array.from(axisVector(3)).buffer)
  await publisher.publish(vectorsCommands, [
    {
      key: { collection: stored, id },
      value: { vector, payload: '{}', embedder: null, making: null, expires_at: null },
    },
  ])
}
