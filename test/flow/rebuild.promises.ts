/** Rebuilding the vector index while the platform works, and growing its topic while it does not. */

import pino from 'pino'
import { describe, expect, it } from 'vitest'
import { resetGroupAction } from '#operations/groups.ts'
import { growTopic } from '#operations/grow.ts'
import { readLag } from '#operations/lag.ts'
import { rebuildVectorsAction } from '#operations/rebuild.ts'
import { openPlatform, type Platform } from '#runtime/start/platform.ts'
import { migrationFolders } from '#services/migrations.ts'
import { listGenerations, vectorsIndex } from '#services/vectors/write/rebuild.ts'
import { topicByName, vectorsCommands } from '#topics/catalog.ts'
import { deadLettersOf } from '#topics/dead-letters.ts'
import { eventually } from '../support/eventually.ts'
import { operating } from '../support/operator.ts'
import { axisVector } from '../support/points.ts'
import { startedPlatform } from '../support/started-platform.ts'
import { temporaryFolder } from '../support/temporary.ts'

const log = pino({ level: 'silent' })

type Environment = Record<string, string>

function rebuild(platform: Platform, signal = new AbortController().signal) {
  return rebuildVectorsAction.run(operating(platform, signal), {})
}

const pointsOf = (from: number, count: number) =>
  Array.from({ length: count }, (_, i) => ({
    id: `p${from + i}`,
    vector: axisVector(from + i),
    payload: { n: from + i },
  }))

/** A record that can never be a point, as part of an operation. */
async function publishPoison(platform: Platform): Promise<void> {
  await platform.publisher.publish(vectorsCommands, [
    {
      key: { collection: 'posts', id: 'poison' },
      value: { vector: Buffer.alloc(12), payload: '{}', embedder: null, making: null, expires_at: null },
      headers: { operation: 'operation-of-poison' },
    },
  ])
}

async function failureRows(platform: Platform) {
  const { rows } = await platform.engines.relational.query<{
    operation: string
    point_id: string
    error: string
  }>('select operation, point_id, error from platform.operation_failures')
  return rows
}

/** `engines` names empty engines, new ones at each call. */
export function describeRebuild(driver: string, engines: () => Promise<Environment>): void {
  const environment = async () => ({ FLOTILLA_HOME: temporaryFolder(), ...(await engines()) })

  describe(`flotilla rebuild vectors (${driver})`, () => {
    it('fills a new generation while every write stays readable, and survives a restart', async () => {
      const env = await environment()
      const first = await startedPlatform(env, { mirror: false })
      const { client, platform } = first
      await client.upsert('posts', pointsOf(0, 300))
      await client.waitFor(await client.delete('posts', ['p0', 'p1']))
      await publishPoison(platform)
      const poisoned = await eventually('the failure row', async () => (await failureRows(platform))[0])
      expect(poisoned).toEqual({
        operation: 'operation-of-poison',
        point_id: 'poison',
        error: 'the vector has 12 bytes instead of 6144',
      })

      let written = 300
      let over = false
      const writing = (async () => {
        while (!over) {
          const { operation_id } = await client.upsert('posts', pointsOf(written, 5))
          const { points } = await client.getMany('posts', [`p${written}`], { after: operation_id })
          expect(points).toHaveLength(1)
          written += 5
        }
      })()
      // The command dies at once; run again, it goes on with the same generation.
      await expect(rebuild(platform, AbortSignal.abort())).rejects.toMatchObject({ code: 'shutting_down' })
      const result = await Promise.race([rebuild(platform), writing.then(() => null)])
      over = true
      await writing
      expect(result).toMatchObject({ index: 'vectors', generation: 2 })
      expect(await platform.engines.vectors.liveGeneration()).toBe(2)
      const states = (await listGenerations(platform.engines.relational, vectorsIndex)).map(
        ({ state }) => state,
      )
      expect(states).toEqual(['retired', 'live'])
      await expectNameToStay(platform)
      expect(await client.count('posts')).toBe(written - 2)
      await first.close()

      const second = await startedPlatform(env, { mirror: false })
      // The first may have had no time left to release its partitions: then it takes longer than a request waits.
      await second.client.waitFor(await second.client.upsert('posts', pointsOf(written, 1)))
      expect(await second.client.count('posts')).toBe(written - 1)
      expect(await second.platform.engines.vectors.liveGeneration()).toBe(2)
      await second.close()
    }, 180_000)
  })

  describe(`flotilla topics grow (${driver})`, () => {
    it('copies a compacted topic key by key, is refused while the platform runs, and loses nothing', async () => {
      const env = await environment()
      const first = await startedPlatform(env, { mirror: true })
      await first.client.upsert('posts', pointsOf(0, 60), { wait: true })
      await first.client.upsert('posts', [{ id: 'p0', vector: axisVector(0), payload: { n: 'newest' } }], {
        wait: true,
      })
      await first.client.delete('posts', ['p1'], { wait: true })
      const old = await first.client.upsert('posts', pointsOf(2, 1), { wait: true })
      await publishPoison(first.platform)
      await eventually('the failure row', async () => (await failureRows(first.platform))[0])
      await eventually('everything is read', async () => (await lagOf(first.platform)) === 0)
      await expect(grow(first.platform, 'vectors.commands', 20)).rejects.toMatchObject({
        code: 'group_active',
      })
      await first.close()

      const offline = await openPlatform({
        migrations: migrationFolders,
        env,
        needs: [],
        producerName: 'test',
        log,
        lock: true,
      })
      await expect(grow(offline, 'vectors.commands', 12)).rejects.toMatchObject({ code: 'bad_request' })
      const location = await grow(offline, 'vectors.commands', 20)
      expect(location).toEqual({ physicalName: 'vectors.commands.e2', epoch: 2, partitions: 20 })
      expect(await offline.engines.eventLog.listTopics()).not.toContain('vectors.commands')
      await grow(offline, 'audit.events', 13)
      await offline.close()

      const second = await startedPlatform(env, { mirror: true })
      const { client, platform } = second
      expect(platform.publisher.locationOf(vectorsCommands).partitions).toBe(20)
      await client.waitFor(await client.upsert('posts', pointsOf(100, 40)))
      expect(await client.count('posts')).toBe(99)
      await expect(client.operation(old.operation_id)).rejects.toMatchObject({ status: 404 })
      // The grown topic holds everything: an index made from it alone is the same.
      await rebuild(platform)
      expect(await client.count('posts')).toBe(99)
      expect((await client.get('posts', 'p0')).payload).toEqual({ n: 'newest' })
      const parked = platform.locations.get(deadLettersOf(vectorsCommands).name)
      expect(parked?.partitions).toBe(1)
      await second.close()
    }, 180_000)
  })
}

/** After a rebuild people call the group as before, though the log has a new one: in lag, metrics and commands. */
async function expectNameToStay(platform: Platform): Promise<void> {
  const groups = await readLag(platform)
  expect(groups.filter(({ group }) => group.startsWith('vector-writer'))).toMatchObject([
    { group: 'vector-writer', group_id: 'vector-writer.g2' },
  ])
  await eventually('the metrics follow', async () => {
    const lags = await platform.metrics.getSingleMetricAsString('flotilla_consumer_lag_records')
    const labels = new Set([...lags.matchAll(/group="(vector-writer[^"]*)"/g)].map(([, name]) => name))
    return [...labels].join() === 'vector-writer'
  })
  for (const group of ['vector-writer', 'vector-writer.g2']) {
    const reset = resetGroupAction.run(operating(platform), { group, to: 'end' })
    await expect(reset).rejects.toMatchObject({ code: 'group_active' })
  }
}

function grow(platform: Platform, name: string, partitions: number) {
  const parts = { ...platform, progress() {}, signal: new AbortController().signal }
  return growTopic(parts, topicByName(name)!, partitions)
}

async function lagOf(platform: Platform): Promise<number> {
  const groups = await readLag(platform)
  return groups.reduce((sum, group) => sum + group.lag, 0)
}
