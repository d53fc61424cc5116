/** A Kafka that is away: the log opens all the same, says so in time, and goes on by itself when the broker is back. */

import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import type { EventLog } from '#engines/event-log/port.ts'
import { eventually } from '#test/support/eventually.ts'
import { openTestLog } from '#test/support/kafka-log.ts'
import { topicSpec } from '#test/support/topic-spec.ts'
import { type KafkaCluster, openKafkaCluster } from '../../scripts/servers/kafka.ts'

let cluster: KafkaCluster

beforeAll(async () => {
  cluster = await openKafkaCluster(1)
})

afterAll(async () => {
  await cluster?.close()
})

const open = () => openTestLog(cluster.brokers, 'faults')
const spec = (name: string) => topicSpec(name, { partitions: 2 })
const records = (...values: string[]) => values.map((value) => ({ key: null, value: Buffer.from(value) }))

/** Joins, keeps what it hears, starts at the committed position or the first record. */
async function join(log: EventLog, topic: string) {
  const heard: string[] = []
  const alarms: unknown[] = []
  const consumer = await log.consume({
    group: `${topic}-group`,
    topic,
    listener: {
      assigned: async (gained) =>
        new Map(gained.map((one) => [one.partition, one.committed?.offset ?? one.start])),
      lost() {},
      records: (_, some) => void heard.push(...some.map((record) => record.value!.toString())),
      misplaced: (partition, problem) => void alarms.push({ partition, ...problem }),
    },
  })
  onTestFinished(() => consumer.close())
  return { consumer, heard, alarms }
}

describe('a broker that is away', () => {
  test('the log opens while it is down, fails in time, and works when it is up', async () => {
    await (await open()).createTopic(spec('late'))
    await cluster.kill9(1)
    const log = await open()
    const begun = Date.now()
    const failed = { code: 'log_unavailable', retryAfter: 1 }
    await Promise.all([
      expect(log.append('late', 0, records('early'))).rejects.toMatchObject(failed),
      expect(log.ping(1_000)).rejects.toMatchObject(failed),
    ])
    expect(Date.now() - begun).toBeLessThan(6_000)
    const { heard } = await join(log, 'late')
    const tailed: string[] = []
    const tail = await log.tail({
      topic: 'late',
      from: 'beginning',
      records: (_, some) => void tailed.push(...some.map((record) => record.value!.toString())),
    })
    expect(tail.current()).toBe(false)
    await cluster.start(1)
    await eventually('the ping answers', () => log.ping(1_000).then(() => true))
    await log.append('late', 1, records('now'), { timeoutMs: 20_000 })
    await eventually('the member hears it', () => heard.includes('now'), 40_000)
    await eventually('the tail hears it', () => tailed.includes('now'), 40_000)
    await eventually('the tail is current', () => tail.current())
  }, 120_000)

  test('appends wait for a broker that restarts, within their time', async () => {
    const log = await open()
    await log.createTopic(spec('waits'))
    expect(await log.append('waits', 0, records('a'))).toBe(0)
    await cluster.kill9(1)
    const waiting = log.append('waits', 0, records('b'), { timeoutMs: 60_000 })
    const behind = log.append('waits', 0, records('c'), { timeoutMs: 60_000 })
    await expect(log.append('waits', 0, records('gives up'))).rejects.toMatchObject({
      code: 'log_unavailable',
    })
    await cluster.start(1)
    const [first, second] = await Promise.all([waiting, behind])
    expect(second).toBeGreaterThan(first)
  }, 120_000)

  test('a member and a tail outlive a restart: nothing is missed, positions stay, no alarm', async () => {
    const log = await open()
    await log.createTopic(spec('restart'))
    await log.append('restart', 0, records('1', '2', '3'))
    const { consumer, heard, alarms } = await join(log, 'restart')
    const tailed: string[] = []
    const tail = await log.tail({
      topic: 'restart',
      from: 'beginning',
      records: (_, some) => void tailed.push(...some.map((record) => record.value!.toString())),
    })
    await tail.ready
    await eventually('they are heard', () => heard.length === 3)
    await eventually('a commit', async () => (await consumer.commit(0, 3, 'three')) === 'committed')
    await cluster.kill9(1)
    await eventually('the tail is not current', () => !tail.current())
    await eventually('it is not alive', () => !consumer.alive(), 30_000)
    await cluster.start(1)
    await log.append('restart', 0, records('4', '5'), { timeoutMs: 30_000 })
    await eventually('the member hears the new ones', () => heard.includes('5'), 60_000)
    await eventually('the tail hears them', () => tailed.includes('5'), 60_000)
    await eventually('it is alive', () => consumer.alive())
    expect(heard).toEqual(['1', '2', '3', '4', '5'])
    expect(tailed).toEqual(['1', '2', '3', '4', '5'])
    expect(alarms).toEqual([])
    expect((await log.groupState('restart-group', 'restart')).committed).toEqual([
      { partition: 0, offset: 3, metadata: 'three' },
    ])
    await eventually('a commit', async () => (await consumer.commit(0, 5, '')) === 'committed', 30_000)
  }, 180_000)
})
