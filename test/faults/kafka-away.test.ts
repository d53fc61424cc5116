/** A Kafka that is away: the log opens all the same, says so, and goes on by itself when the broker is back. */

import { afterAll, beforeAll, beforeEach, describe, expect, onTestFinished, test } from 'vitest'
import type { EventLog } from '#engines/event-log/port.ts'
import { eventually } from '#test/support/eventually.ts'
import { openTestLog } from '#test/support/kafka-log.ts'
import { topicSpec } from '#test/support/topic-spec.ts'
import { type KafkaCluster, openKafkaCluster } from '../../scripts/servers/kafka.ts'

let cluster: KafkaCluster
let away = false
let topics = 0

beforeAll(async () => {
  cluster = await openKafkaCluster(1)
})

beforeEach(start)

afterAll(async () => {
  await cluster?.close()
})

async function kill(): Promise<void> {
  away = true
  await cluster.kill9(1)
}

/** The broker of a first try that failed may be away. */
async function start(): Promise<void> {
  if (away) await cluster.start(1)
  away = false
}

/** Only ends a hang. */
const patienceMs = 60_000
const open = () => openTestLog(cluster.brokers, 'faults')
const spec = (name: string) => topicSpec(name, { partitions: 2 })
const records = (...values: string[]) => values.map((value) => ({ key: null, value: Buffer.from(value) }))

/** Joins, keeps all records, starts at the committed position or the first record. */
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
  test('the log opens while it is down, fails with a typed error, and works when it is up', async () => {
    const topic = `late${topics++}`
    await (await open()).createTopic(spec(topic))
    await kill()
    const log = await open()
    const failed = { code: 'log_unavailable', retryAfter: 1 }
    await Promise.all([
      expect(log.append(topic, 0, records('early'))).rejects.toMatchObject(failed),
      expect(log.ping(1_000)).rejects.toMatchObject(failed),
    ])
    const { heard } = await join(log, topic)
    const tailed: string[] = []
    const tail = await log.tail({
      topic,
      from: 'beginning',
      records: (_, some) => void tailed.push(...some.map((record) => record.value!.toString())),
    })
    expect(tail.current()).toBe(false)
    await start()
    await eventually('the ping answers', () => log.ping(1_000).then(() => true), patienceMs)
    await log.append(topic, 1, records('now'), { timeoutMs: patienceMs })
    await eventually('the member reads it', () => heard.includes('now'), patienceMs)
    await eventually('the tail reads it', () => tailed.includes('now'), patienceMs)
    await eventually('the tail is current', () => tail.current(), patienceMs)
  }, 240_000)

  test('appends wait for a broker that restarts, within their time', async () => {
    const log = await open()
    const topic = `waits${topics++}`
    await log.createTopic(spec(topic))
    expect(await log.append(topic, 0, records('a'))).toBe(0)
    await kill()
    const waiting = log.append(topic, 0, records('b'), { timeoutMs: patienceMs })
    const behind = log.append(topic, 0, records('c'), { timeoutMs: patienceMs })
    await expect(log.append(topic, 0, records('gives up'))).rejects.toMatchObject({
      code: 'log_unavailable',
    })
    await start()
    const [first, second] = await Promise.all([waiting, behind])
    expect(second).toBeGreaterThan(first)
  }, 120_000)

  test('a member and a tail outlive a restart: nothing is missed, positions stay, no alarm', async () => {
    const log = await open()
    const topic = `restart${topics++}`
    await log.createTopic(spec(topic))
    await log.append(topic, 0, records('1', '2', '3'))
    const { consumer, heard, alarms } = await join(log, topic)
    const tailed: string[] = []
    const tail = await log.tail({
      topic,
      from: 'beginning',
      records: (_, some) => void tailed.push(...some.map((record) => record.value!.toString())),
    })
    await tail.ready
    await eventually('they are read', () => heard.length === 3, patienceMs)
    await eventually(
      'a commit',
      async () => (await consumer.commit(0, 3, 'three')) === 'committed',
      patienceMs,
    )
    await kill()
    await eventually('the tail is not current', () => !tail.current(), patienceMs)
    await eventually('it is not alive', () => !consumer.alive(), patienceMs)
    await start()
    await log.append(topic, 0, records('4', '5'), { timeoutMs: patienceMs })
    await eventually('the member reads the new ones', () => heard.includes('5'), patienceMs)
    await eventually('the tail reads them', () => tailed.includes('5'), patienceMs)
    await eventually('it is alive', () => consumer.alive(), patienceMs)
    expect(heard).toEqual(['1', '2', '3', '4', '5'])
    expect(tailed).toEqual(['1', '2', '3', '4', '5'])
    expect(alarms).toEqual([])
    expect((await log.groupState(`${topic}-group`, topic)).committed).toEqual([
      { partition: 0, offset: 3, metadata: 'three' },
    ])
    await eventually('a commit', async () => (await consumer.commit(0, 5, '')) === 'committed', patienceMs)
  }, 300_000)
})
