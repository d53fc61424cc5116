import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { EventLog, TopicSpec } from '#engines/event-log/port.ts'
import { eventually } from '#test/support/eventually.ts'
import { openTestLog } from '#test/support/kafka-log.ts'
import { openProxiedKafka, type ProxiedKafka } from '#test/support/kafka-proxy.ts'
import { topicSpec } from '#test/support/topic-spec.ts'

const spec = (name: string, more: Partial<TopicSpec> = {}) => topicSpec(name, { cleanup: 'compact', ...more })
const point = (value: string) => [{ key: Buffer.from('p'), value: Buffer.from(value) }]
const refused = { code: 'log_unavailable' }
/** A second try has topics and writers of its own. */
let names = 0
const patient = { timeoutMs: 60_000 }

async function endOf(log: EventLog, topic: string): Promise<number> {
  return (await log.offsets(topic))[0]!.end
}

/** The records of a topic as readers see them: no fences. */
async function readBy(log: EventLog, topic: string): Promise<string[]> {
  const values: string[] = []
  const tail = await log.tail({
    topic,
    from: 'beginning',
    records: (_, some) => {
      for (const { value } of some) values.push(String(value))
    },
  })
  await tail.ready
  await tail.close()
  return values
}

describe.each([1, 3] as const)('a network that delays bytes, brokers: %i', (count) => {
  let kafka: ProxiedKafka
  beforeAll(async () => {
    kafka = await openProxiedKafka(count)
  })
  afterAll(() => kafka?.close())

  const open = () => openTestLog(kafka.brokers, 'late')

  /** By a log of its own, whose connections are new. */
  const valuesOf = async (topic: string) => readBy(await open(), topic)

  test.each(['goes silent', 'is reset'] as const)(
    'a write that was refused never lands behind a later one that was acknowledged; its connection %s',
    async (how) => {
      const log = await open()
      const topic = `refused${names++}`
      await log.createTopic(spec(topic))
      await log.append(topic, 0, point('v0'), patient)
      const silence = kafka.silence('all')
      await expect(log.append(topic, 0, point('v1'))).rejects.toMatchObject(refused)
      if (how === 'is reset') silence.reset()
      await log.append(topic, 0, point('v2'), patient)
      await silence.arrive()
      expect(await valuesOf(topic)).toEqual(['v0', 'v2'])
    },
    120_000,
  )

  test('a write whose connection was replaced is in the log once, in its place', async () => {
    const log = await open()
    const topic = `replaced${names++}`
    await log.createTopic(spec(topic))
    await log.append(topic, 0, point('v0'), patient)
    const silence = kafka.silence('all')
    const first = log.append(topic, 0, point('v1'), patient)
    const second = log.append(topic, 0, point('v2'), patient)
    expect(await Promise.all([first, second])).toEqual([1, 2])
    await silence.arrive()
    expect(await valuesOf(topic)).toEqual(['v0', 'v1', 'v2'])
  }, 120_000)

  test.each(['compact', 'delete'] as const)(
    'where nothing follows a refused write (%s) a fence does, so that what another log writes meanwhile stays the last',
    async (cleanup) => {
      const [log, other] = [await open(), await open()]
      const topic = `fenced${names++}`
      await log.createTopic(spec(topic, { cleanup }))
      await log.append(topic, 0, point('v0'), patient)
      const silence = kafka.silence('all')
      await expect(log.append(topic, 0, point('v1'))).rejects.toMatchObject(refused)
      expect(await other.append(topic, 0, point('v1 again'), patient)).toBe(1)
      await eventually('the fence', async () => (await endOf(other, topic)) === 3, 60_000)
      await other.append(topic, 0, point('v2'), patient)
      await silence.arrive()
      expect(await endOf(other, topic)).toBe(4)
      expect(await valuesOf(topic)).toEqual(['v0', 'v1 again', 'v2'])
      expect(await log.append(topic, 0, point('v3'), patient)).toBe(4)
    },
    120_000,
  )

  test('a holder of a writer name that was cut off cannot append behind its successor', async () => {
    const [log, other] = [await open(), await open()]
    const topic = `named${names++}`
    await log.createTopic(spec(topic))
    const holder = await log.fencedWriter(`writer-${topic}`)
    await holder.append(topic, 0, point('v0'), patient)
    const silence = kafka.silence('all')
    const late = holder.append(topic, 0, point('v1'))
    await expect(late).rejects.toMatchObject(refused)
    const successor = await other.fencedWriter(`writer-${topic}`)
    await successor.append(topic, 0, point('v2'), patient)
    await silence.arrive()
    await expect(holder.append(topic, 0, point('v3'), patient)).rejects.toMatchObject({ code: 'fenced' })
    await expect(holder.append(topic, 0, point('v4'))).rejects.toMatchObject({ code: 'fenced' })
    expect(await valuesOf(topic)).toEqual(['v0', 'v2'])
  }, 120_000)

  test('a writer name goes on by itself after a write of it was refused', async () => {
    const log = await open()
    const topic = `goes-on${names++}`
    await log.createTopic(spec(topic))
    const holder = await log.fencedWriter(`writer-${topic}`)
    await holder.append(topic, 0, point('v0'), patient)
    const silence = kafka.silence('all')
    await expect(holder.append(topic, 0, point('v1'))).rejects.toMatchObject(refused)
    await holder.append(topic, 0, point('v2'), patient)
    await silence.arrive()
    expect(await valuesOf(topic)).toEqual(['v0', 'v2'])
  }, 120_000)

  test.each([
    ['a writing one', 'produce', 1],
    ['all', 'all', undefined],
  ] as const)(
    'writing goes on when connections go silent: %s',
    async (_, kind, most) => {
      const log = await open()
      const topic = `silent${names++}`
      const partitions = [0, 1, 2, 3, 4, 5]
      await log.createTopic(spec(topic, { partitions: partitions.length }))
      for (const partition of partitions) await log.append(topic, partition, point('v0'), patient)
      expect(kafka.carrying('produce')).toBeGreaterThan(0)
      const { connections } = kafka.silence(kind, most)
      expect(connections).toBeGreaterThan(0)
      await Promise.all(partitions.map((partition) => log.append(topic, partition, point('v1'), patient)))
    },
    120_000,
  )
})
