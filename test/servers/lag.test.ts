/** The lag that is shown is the one that Kafka's own tools show, and where it is not it says so. */

import { randomUUID } from 'node:crypto'
import { pino } from 'pino'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { openKafkaLog } from '#engines/event-log/kafka.ts'
import type { EventLog } from '#engines/event-log/port.ts'
import { partitionLags } from '#operations/lag.ts'
import { runCommand } from '../../scripts/servers/children.ts'
import { installKafka } from '../../scripts/servers/install.ts'
import { kafkaBrokers } from '../support/servers.ts'
import { topicSpec } from '../support/topic-spec.ts'

const topic = `lag-${randomUUID()}`
const group = `group-${randomUUID()}`
let brokers: string[]
let log: EventLog

beforeAll(async () => {
  brokers = await kafkaBrokers()
  log = await openKafkaLog({ brokers, clientId: 'lag', log: pino({ level: 'silent' }) })
  await log.createTopic(topicSpec(topic, { partitions: 4, cleanup: 'delete' }))
})
afterAll(() => log?.close())

/** One of Kafka's own command-line tools; its lines, each as its words. */
async function tool(name: string, ...args: string[]): Promise<string[][]> {
  const java = ['-Xmx128m', '-XX:+UseSerialGC', '-XX:TieredStopAtLevel=1', '-cp', `${await installKafka()}/*`]
  const server = ['--bootstrap-server', brokers.join(',')]
  const output = await runCommand('java', [...java, `org.apache.kafka.tools.${name}`, ...server, ...args], {
    timeoutMs: 60_000,
  })
  return output.split('\n').map((line) => line.trim().split(/[\s:]+/))
}

test('lag and ends are those of kafka-consumer-groups and kafka-get-offsets; what expired unread is apart', async () => {
  const records = (count: number) =>
    Array.from({ length: count }, (_, n) => ({ key: null, value: Buffer.from(`${n}`) }))
  for (const [partition, count] of [10, 20, 30, 0].entries())
    await log.append(topic, partition, records(count))
  await log.setPositions(group, topic, [
    { partition: 0, offset: 10 },
    { partition: 1, offset: 5 },
    { partition: 2, offset: 4 },
    { partition: 3, offset: 0 },
  ])
  await log.deleteRecords(topic, 2, 12)
  const [positions] = await log.groupPositions([{ group, topic }])
  const ours = partitionLags(positions!)
  expect(ours).toMatchObject([
    { partition: 0, committed: 10, end: 10, lag: 0, expired: 0 },
    { partition: 1, committed: 5, end: 20, lag: 15, expired: 0 },
    { partition: 2, committed: 4, start: 12, end: 30, lag: 18, expired: 8 },
    { partition: 3, committed: 0, end: 0, lag: 0, expired: 0 },
  ])
  // GROUP TOPIC PARTITION CURRENT-OFFSET LOG-END-OFFSET LAG …
  const described = await tool('consumer.group.ConsumerGroupCommand', '--describe', '--group', group)
  const theirs = described.filter(([name]) => name === group).map((words) => words.slice(2, 6).map(Number))
  expect(theirs.sort(([a], [b]) => a! - b!)).toEqual(
    ours.map(({ partition, committed, end, lag, expired }) => [partition, committed, end, lag + expired]),
  )
  const ends = (await tool('GetOffsetShell', '--topic', topic)).filter(([name]) => name === topic)
  expect(ends.map(([, partition, end]) => [Number(partition), Number(end)])).toEqual(
    ours.map(({ partition, end }) => [partition, end]),
  )
})
