/** Behaviour of the Kafka client that the driver must prevent, on a real broker. */

import { randomUUID } from 'node:crypto'
import { ConfigResourceTypes, Kafka, logLevel } from 'kafkajs'
import { describe, expect, test, vi } from 'vitest'
import type { EventLog } from '#engines/event-log/port.ts'
import { eventually } from '#test/support/eventually.ts'
import { openTestLog, underWayMs } from '#test/support/kafka-log.ts'
import { kafkaBrokers } from '#test/support/servers.ts'
import { topicSpec } from '#test/support/topic-spec.ts'
import { commit, join, numbered, range, readAll, record } from './event-log/world.ts'

const open = async (others: string[] = []) => openTestLog([...others, ...(await kafkaBrokers())], 'traps')

async function topicOf(log: EventLog, partitions = 1): Promise<string> {
  const name = `traps.${randomUUID()}`
  await log.createTopic(topicSpec(name, { partitions }))
  return name
}

test('a partition that another client has just added takes records; none is dropped silently', async () => {
  const [log, other] = [await open(), await open()]
  const topic = await topicOf(log, 1)
  await log.append(topic, 0, numbered(1))
  await other.addPartitions(topic, 3)
  expect(await log.append(topic, 2, numbered(2), { timeoutMs: 20_000 })).toBe(0)
  expect((await log.offsets(topic))[2]).toEqual({ partition: 2, start: 0, end: 2 })
})

test('a broker that is down at the head of the list is passed over', async () => {
  const log = await open(['127.0.0.1:9'])
  const topic = await topicOf(log)
  await log.append(topic, 0, numbered(2), { timeoutMs: 20_000 })
  const member = await join(log, { group: `traps-${randomUUID()}`, topic })
  await eventually('it reads', () => member.records.length === 2)
})

test('a topic that another client deletes stops no other topic', async () => {
  const [log, other] = [await open(), await open()]
  const [gone, stays] = [await topicOf(log), await topicOf(log)]
  for (const topic of [gone, stays]) await log.append(topic, 0, numbered(1))
  await other.deleteTopic(gone)
  // The broker confirms a deletion before it acts on it: an append may still be accepted for a while.
  const fate = () => log.append(gone, 0, numbered(1), { timeoutMs: 20_000 }).catch((error) => error.code)
  await eventually('the topic is not found', async () => (await fate()) === 'not_found')
  expect(await log.append(stays, 0, numbered(1), { timeoutMs: 20_000 })).toBe(1)
  expect(await log.offsets(stays)).toEqual([{ partition: 0, start: 0, end: 2 }])
})

test('one append of more than a batch is written whole, with the true offsets', async () => {
  const log = await open()
  const topic = await topicOf(log)
  const large = range(0, 40).map((i) => ({ key: Buffer.from(String(i)), value: Buffer.alloc(100_000, i) }))
  const [first, second] = await Promise.all([
    log.append(topic, 0, large, { timeoutMs: 30_000 }),
    log.append(topic, 0, numbered(3), { timeoutMs: 30_000 }),
  ])
  expect([first, second]).toEqual([0, 40])
})

test('records that expire under a reader stop it with an alarm; its committed position stays', async () => {
  const log = await open()
  const topic = await topicOf(log)
  await log.append(topic, 0, numbered(5))
  const group = `traps-${randomUUID()}`
  const member = await join(log, { group, topic })
  await eventually('it reads', () => member.records.length === 5)
  expect(await commit(member.consumer, 0, 4, 'window')).toBe('committed')
  member.consumer.pause(0)
  // A fetch that was under way would bring the next records.
  await new Promise((resolve) => setTimeout(resolve, underWayMs))
  await log.append(topic, 0, numbered(10, 5))
  await log.deleteRecords(topic, 0, 12)
  member.consumer.resume(0)
  await eventually('the alarm', () => member.misplaced.length > 0)
  expect(member.misplaced).toEqual([{ partition: 0, position: 5, start: 12, end: 15 }])
  expect(member.records).toHaveLength(5)
  expect((await log.groupState(group, topic)).committed).toEqual([
    { partition: 0, offset: 4, metadata: 'window' },
  ])
  member.consumer.seek(0, 12)
  await eventually('it goes on', () => member.records.length === 8)
})

test('a member that owns partitions without records commits, without having received anything', async () => {
  const log = await open()
  const topic = await topicOf(log, 3)
  const group = `traps-${randomUUID()}`
  const member = await join(log, { group, topic })
  await eventually('it owns them', () => member.gained.length === 3)
  for (const partition of range(0, 3)) {
    expect(await member.consumer.commit(partition, 0, `m${partition}`)).toBe('committed')
  }
  expect((await log.groupState(group, topic)).committed).toHaveLength(3)
})

test('the client causes no warning of Node', async () => {
  const warnings: Error[] = []
  const remember = (warning: Error) => void warnings.push(warning)
  process.on('warning', remember)
  const log = await open()
  const topic = await topicOf(log)
  await Promise.all(range(0, 50).map(() => log.append(topic, 0, numbered(1), { timeoutMs: 20_000 })))
  process.off('warning', remember)
  expect(warnings).toEqual([])
})

describe('times', () => {
  const hour = 3_600_000

  /** A topic as it was made before the brokers' time was asked for. */
  async function oldTopic(): Promise<string> {
    const topic = `traps.${randomUUID()}`
    const admin = new Kafka({
      brokers: await kafkaBrokers(),
      clientId: 'traps',
      logLevel: logLevel.NOTHING,
    }).admin()
    await admin.connect()
    const configEntries = [
      { name: 'message.timestamp.type', value: 'CreateTime' },
      { name: 'retention.ms', value: String(90 * 24 * hour) },
    ]
    await admin.createTopics({ topics: [{ topic, numPartitions: 1, configEntries }] })
    await admin.disconnect()
    return topic
  }
  async function settingOf(topic: string, name: string): Promise<string | undefined> {
    const admin = new Kafka({
      brokers: await kafkaBrokers(),
      clientId: 'traps',
      logLevel: logLevel.NOTHING,
    }).admin()
    await admin.connect()
    const { resources } = await admin.describeConfigs({
      resources: [{ type: ConfigResourceTypes.TOPIC, name: topic, configNames: [name] }],
      includeSynonyms: false,
    })
    await admin.disconnect()
    return resources[0]?.configEntries[0]?.configValue
  }
  /** Appends one record while this process's clock is wrong by so much. */
  async function appendAt(log: EventLog, topic: string, skewMs: number): Promise<void> {
    const real = Date.now
    const clock = vi.spyOn(Date, 'now').mockImplementation(() => real() + skewMs)
    try {
      await log.append(topic, 0, [record('k', String(skewMs))], { timeoutMs: 20_000 })
    } finally {
      clock.mockRestore()
    }
  }

  test.each(['new', 'old'] as const)(
    'a wrong clock of the writer neither stops writing nor shows in the records (a topic that is %s)',
    async (kind) => {
      const log = await open()
      const topic = kind === 'new' ? await topicOf(log) : await oldTopic()
      const before = Date.now()
      const skews = [0, 2 * hour, -91 * 24 * hour]
      for (const skewMs of skews) await appendAt(log, topic, skewMs)
      const stored = await readAll(log, topic)
      expect(stored.map(({ value }) => Number(value))).toEqual(skews)
      for (const { timestamp } of stored) {
        expect(timestamp).toBeGreaterThanOrEqual(before - 1_000)
        expect(timestamp).toBeLessThanOrEqual(Date.now() + 1_000)
      }
      expect(await settingOf(topic, 'message.timestamp.type')).toBe('LogAppendTime')
      if (kind === 'old') expect(await settingOf(topic, 'retention.ms')).toBe(String(90 * 24 * hour))
    },
  )
})
