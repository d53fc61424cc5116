/** Reading Kafka records that another client wrote, and a group with a member of a former release. */

import { randomUUID } from 'node:crypto'
import { Producer } from '@platformatic/kafka'
import kafkajs, { type Assigner, type Cluster } from 'kafkajs'
import { expect, onTestFinished, test } from 'vitest'
import type { EventLog } from '#engines/event-log/port.ts'
import { eventually } from '#test/support/eventually.ts'
import { openTestLog } from '#test/support/kafka-log.ts'
import { kafkaBrokers } from '#test/support/servers.ts'
import { topicSpec } from '#test/support/topic-spec.ts'
import { commit, join, openTail, range, record, values } from './event-log/world.ts'

const open = async () => openTestLog(await kafkaBrokers(), 'records')

async function createTopic(log: EventLog, name: string, partitions = 1): Promise<string> {
  await log.createTopic(topicSpec(name, { partitions }))
  return name
}

const topicOf = (log: EventLog, partitions?: number) =>
  createTopic(log, `records.${randomUUID()}`, partitions)

async function otherClient(): Promise<kafkajs.Kafka> {
  return new kafkajs.Kafka({
    brokers: await kafkaBrokers(),
    clientId: 'other',
    logLevel: kafkajs.logLevel.NOTHING,
  })
}

test.each(['gzip', 'snappy', 'lz4', 'zstd'] as const)(
  'records that were compressed with %s are read',
  async (compression) => {
    const log = await open()
    const topic = await topicOf(log)
    const producer = new Producer({ clientId: 'other', bootstrapBrokers: await kafkaBrokers() })
    onTestFinished(() => producer.close())
    const texts = range(0, 50).map((i) => `${i} ${'again and '.repeat(50)}`)
    await producer.send({
      compression,
      messages: texts.map((text) => ({
        topic,
        partition: 0,
        key: Buffer.from('k'),
        value: Buffer.from(text),
        headers: new Map([[Buffer.from('event-id'), Buffer.from(text.slice(0, 5))]]),
      })),
    })
    const member = await join(log, { group: `records-${randomUUID()}`, topic })
    await eventually('all are read', () => member.records.length === texts.length)
    expect(values(member.records)).toEqual(texts)
    const last = member.records[49]!
    expect([last.headers, last.headerBytes?.('event-id')?.toString(), last.headerBytes?.('no')]).toEqual([
      { 'event-id': '49 ag' },
      '49 ag',
      undefined,
    ])
  },
)

test('fences are passed over by members and tails, which reach the end all the same', async () => {
  const log = await open()
  const topic = await topicOf(log)
  const fence = () => log.append(topic, 0, [record('f', null, { 'flotilla-fence': '1' })])
  await fence()
  await log.append(topic, 0, [record('a', '1')])
  await fence()
  const { tail, records } = await openTail(log, topic, 'beginning')
  await tail.ready
  const member = await join(log, { group: `records-${randomUUID()}`, topic })
  await eventually('it reads', () => member.records.length === 1)
  await log.append(topic, 0, [record('a', '2')])
  await eventually('both go on', () => member.records.length === 2 && records.length === 2)
  expect([member.offsets(0), values(records), tail.positions()]).toEqual([
    [1, 3],
    ['1', '2'],
    new Map([[0, 4]]),
  ])
  expect(member.misplaced).toEqual([])
})

test('only committed records of transactions are read, without the markers', async () => {
  const log = await open()
  const topic = await topicOf(log)
  const producer = (await otherClient()).producer({ transactionalId: randomUUID(), maxInFlightRequests: 1 })
  await producer.connect()
  onTestFinished(() => producer.disconnect())
  for (const [value, end] of [
    ['given up', 'abort'],
    ['kept', 'commit'],
    ['given up too', 'abort'],
  ] as const) {
    const transaction = await producer.transaction()
    await transaction.send({ topic, messages: [{ partition: 0, value }] })
    await transaction[end]()
  }
  await log.append(topic, 0, [record(null, 'plain')], { timeoutMs: 20_000 })
  const member = await join(log, { group: `records-${randomUUID()}`, topic })
  await eventually('all are read', () => member.records.length >= 2)
  expect(values(member.records)).toEqual(['kept', 'plain'])
  expect([member.offsets(0), member.misplaced]).toEqual([[2, 6], []])
})

test('a topic that was made again under its name stops a reader in the middle, however long it is by then', async () => {
  const log = await open()
  const topic = await topicOf(log)
  await log.append(
    topic,
    0,
    range(0, 5).map((i) => record(null, `old ${i}`)),
  )
  const member = await join(log, { group: `records-${randomUUID()}`, topic })
  await eventually('it reads', () => member.records.length === 5)
  member.consumer.pause(0)
  const other = await open()
  await other.deleteTopic(topic)
  await createTopic(other, topic)
  await other.append(
    topic,
    0,
    range(0, 9).map((i) => record(null, `new ${i}`)),
    { timeoutMs: 20_000 },
  )
  member.consumer.resume(0)
  await eventually('the alarm', () => member.misplaced.length > 0)
  expect(member.misplaced).toEqual([{ partition: 0, position: 5, start: 0, end: 0 }])
  member.consumer.seek(0, 0)
  await eventually('it reads the new one', () => member.records.length === 14)
  expect(values(member.records).slice(5)).toEqual(range(0, 9).map((i) => `new ${i}`))
})

test('a member of a former release shares a group with one of this, whichever of them shares out', async () => {
  const log = await open()
  const topic = await topicOf(log, 6)
  const group = `records-${randomUUID()}`
  const first = await openFormer(group, topic)
  await eventually('the former has all', () => first.owned().length === 6)
  const member = await join(log, { group, topic })
  await eventually('each has half', () => first.owned().length === 3 && member.gained.length === 3)
  const kept = first.owned()
  expect(member.consumer.assignment().toSorted()).toEqual(range(0, 6).filter((one) => !kept.includes(one)))
  await first.leave()
  await eventually('this one has all', () => member.consumer.assignment().length === 6)
  const second = await openFormer(group, topic)
  await eventually('each has half again', () => second.owned().length === 3)
  expect(member.consumer.assignment().concat(second.owned()).toSorted()).toEqual(range(0, 6))
  expect(member.lost).toHaveLength(3)
  for (const partition of member.consumer.assignment()) {
    expect(await commit(member.consumer, partition, 0)).toBe('committed')
  }
}, 240_000)

/** As a release before this one joined: kafkajs, with what it owns in the user data. */
async function openFormer(group: string, topic: string) {
  let owned: number[] = []
  let generation = 0
  const consumer = (await otherClient()).consumer({
    groupId: group,
    sessionTimeout: 10_000,
    rebalanceTimeout: 10_000,
    heartbeatInterval: 1_000,
    maxWaitTimeInMs: 150,
    partitionAssigners: [({ cluster }) => formerAssigner(cluster, () => ({ generation, partitions: owned }))],
  })
  await consumer.connect()
  onTestFinished(() => consumer.disconnect())
  await consumer.subscribe({ topic, fromBeginning: true })
  consumer.on('consumer.group_join', ({ payload }) => {
    owned = payload.memberAssignment[topic] ?? []
    generation++
  })
  await consumer.run({ autoCommit: false, eachMessage: async () => {} })
  return { owned: () => owned, leave: () => consumer.disconnect() }
}

function formerAssigner(cluster: Cluster, claim: () => object): Assigner {
  const { MemberAssignment, MemberMetadata } = kafkajs.AssignerProtocol
  const name = 'flotilla-sticky'
  return {
    name,
    version: 1,
    protocol: ({ topics }) => ({
      name,
      metadata: MemberMetadata.encode({ version: 1, topics, userData: Buffer.from(JSON.stringify(claim())) }),
    }),
    async assign({ members, topics }) {
      const topic = topics[0] as string
      const all = cluster.findTopicPartitionMetadata(topic).map((one) => one.partitionId)
      return members.map(({ memberId }, index) => ({
        memberId,
        memberAssignment: MemberAssignment.encode({
          version: 1,
          assignment: { [topic]: all.filter((partition) => partition % members.length === index) },
          userData: Buffer.alloc(0),
        }),
      }))
    },
  }
}
