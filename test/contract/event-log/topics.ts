/** Topics: made once, described, listed, grown, emptied, removed. */

import { randomBytes } from 'node:crypto'
import { describe, expect, test } from 'vitest'
import { eventually } from '#test/support/eventually.ts'
import { join, numbered, openTail, readAll, values, type World } from './world.ts'

export function describeTopics(world: World): void {
  describe('topics', () => {
    test('a topic is created once; the second call changes nothing and says false', async () => {
      const log = await world.client()
      const spec = {
        name: world.name('topic'),
        partitions: 3,
        cleanup: 'delete' as const,
        retentionMs: 3_600_000,
        tombstoneRetentionMs: 86_400_000,
        segmentBytes: 67_108_864,
        segmentMs: 600_000,
        recordBytesMax: 2_097_152,
      }
      expect(await log.createTopic(spec)).toBe(true)
      expect(await log.createTopic({ ...spec, partitions: 5 })).toBe(false)
      const described = await eventually('the topic is described', () => log.describeTopic(spec.name))
      expect(described).toMatchObject({
        name: spec.name,
        partitions: 3,
        cleanup: 'delete',
        retentionMs: 3_600_000,
      })
      expect(described.recordBytesMax).toBe(spec.recordBytesMax)
      expect(await log.listTopics()).toContain(spec.name)
    })

    test('a compacted topic and one that keeps everything are described as such', async () => {
      const log = await world.client()
      const compacted = await world.topic(log, { cleanup: 'compact' })
      const kept = await world.topic(log, { cleanup: 'delete', retentionMs: null })
      expect(await log.describeTopic(compacted)).toMatchObject({ cleanup: 'compact', retentionMs: null })
      expect(await log.describeTopic(kept)).toMatchObject({ cleanup: 'delete', retentionMs: null })
    })

    test('an unknown topic is described as null and not listed', async () => {
      const log = await world.client()
      const name = world.name('nowhere')
      expect(await log.describeTopic(name)).toBeNull()
      expect(await log.listTopics()).not.toContain(name)
    })

    test('the facts of partitions say about how much room each takes, and who leads it where there are brokers', async () => {
      const log = await world.client()
      const topic = await world.topic(log, { partitions: 2 })
      const records = Array.from({ length: 300 }, (_, at) => ({
        key: Buffer.from(String(at)),
        value: randomBytes(1_000),
      }))
      await log.append(topic, 1, records)
      const facts = await eventually('the room is known', async () => {
        const all = await log.partitionFacts(topic)
        return (all[1]?.bytes ?? 0) > 0 ? all : null
      })
      expect(facts.map(({ partition }) => partition)).toEqual([0, 1])
      expect(facts[1]!.bytes).toBeGreaterThan(200_000)
      expect(facts[1]!.bytes).toBeLessThan(800_000)
      expect(facts[0]!.bytes).toBeLessThan(1_000)
      const leader = log.driver === 'embedded' ? null : expect.stringMatching(/^.+:\d+ \(\d+\)$/)
      expect(facts.map((one) => one.leader)).toEqual([leader, leader])
      expect(facts.every(({ replicas, inSync }) => replicas === inSync && replicas > 0)).toBe(true)
      await expect(log.partitionFacts(world.name('nowhere'))).rejects.toMatchObject({ code: 'not_found' })
    })

    test('a deleted topic is gone, and appending to it is refused', async () => {
      const log = await world.client()
      const topic = await world.topic(log)
      await log.append(topic, 0, numbered(3))
      await log.deleteTopic(topic)
      await eventually('the topic is gone', async () => (await log.describeTopic(topic)) === null)
      await expect(log.append(topic, 0, numbered(1))).rejects.toMatchObject({ code: 'not_found' })
    })

    test('offsets are the first and the next offset of every partition', async () => {
      const log = await world.client()
      const topic = await world.topic(log, { partitions: 3 })
      await log.append(topic, 1, numbered(4))
      expect((await log.offsets(topic)).toSorted((a, b) => a.partition - b.partition)).toEqual([
        { partition: 0, start: 0, end: 0 },
        { partition: 1, start: 0, end: 4 },
        { partition: 2, start: 0, end: 0 },
      ])
    })

    test('deleteRecords removes the records below for good, and the start never goes back', async () => {
      const log = await world.client()
      const topic = await world.topic(log)
      await log.append(topic, 0, numbered(10))
      await log.deleteRecords(topic, 0, 6)
      expect(await log.offsets(topic)).toEqual([{ partition: 0, start: 6, end: 10 }])
      expect(values(await readAll(log, topic))).toEqual(['6', '7', '8', '9'])
      await log.deleteRecords(topic, 0, 2)
      expect(await log.offsets(topic)).toEqual([{ partition: 0, start: 6, end: 10 }])
    })

    test('a partition that was emptied goes on with the next offset', async () => {
      const log = await world.client()
      const topic = await world.topic(log)
      await log.append(topic, 0, numbered(5))
      await log.deleteRecords(topic, 0, 5)
      expect(await log.offsets(topic)).toEqual([{ partition: 0, start: 5, end: 5 }])
      await log.close()
      const again = await world.clientAfterRestart()
      expect(await again.offsets(topic)).toEqual([{ partition: 0, start: 5, end: 5 }])
      expect(await again.append(topic, 0, numbered(1))).toBe(5)
    })

    test('added partitions take records at once, and groups and tails that run read them', async () => {
      const log = await world.client()
      const topic = await world.topic(log, { partitions: 2 })
      const member = await join(log, { group: world.name('group'), topic })
      const { tail, records } = await openTail(log, topic, 'end')
      await tail.ready
      await eventually('two partitions are owned', () => member.consumer.assignment().length === 2)
      await log.addPartitions(topic, 4)
      expect(await log.append(topic, 3, numbered(2))).toBe(0)
      expect(await log.offsets(topic)).toHaveLength(4)
      await eventually('the member reads the new partition', () => member.offsets(3).length === 2)
      await eventually('the tail reads the new partition', () => records.length === 2)
      expect(member.lost).toEqual([])
      expect(member.consumer.assignment().toSorted()).toEqual([0, 1, 2, 3])
    }, 180_000)

    test('partitions are never taken away', async () => {
      const log = await world.client()
      const topic = await world.topic(log, { partitions: 3 })
      await log.addPartitions(topic, 2).catch(() => {})
      expect(await log.offsets(topic)).toHaveLength(3)
    })

    test('the engine answers a ping', async () => {
      const log = await world.client()
      await expect(log.ping()).resolves.toBeUndefined()
    })
  })
}
