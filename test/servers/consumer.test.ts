/** The consumer runtime keeps its promises on Kafka. */

import { randomUUID } from 'node:crypto'
import { pino } from 'pino'
import { expect, onTestFinished, test } from 'vitest'
import { openKafkaLog } from '#engines/event-log/kafka.ts'
import { done } from '#lib/outcome.ts'
import { readRange } from '#runtime/follow/read-records.ts'
import { createHarness, testTopic } from '#test/support/consumer-harness.ts'
import { eventually } from '#test/support/eventually.ts'
import { kafkaBrokers } from '#test/support/servers.ts'
import { describeConsumer } from '../flow/consumer.promises.ts'

const open = async () => {
  const log = pino({ level: process.env.LOG_LEVEL ?? 'silent' })
  return openKafkaLog({ brokers: await kafkaBrokers(), clientId: 'consumer', log })
}

describeConsumer('kafka', open)

test.each(['batches', 'lanes'] as const)(
  'in %s a group comes to the end of a partition whose last record is a fence',
  async (mode) => {
    const log = await open()
    onTestFinished(() => log.close())
    const topic = testTopic(`fenced-${randomUUID()}`, 'compact')
    const harness = await createHarness(log, { partitions: 1, topic })
    const fence = { key: Buffer.from('f'), value: null, headers: { 'flotilla-fence': '1' } }
    const handled: number[] = []
    await harness.add(0, [{}, {}])
    await log.append(topic.name, 0, [fence])
    if (mode === 'batches') {
      await harness.startBatches({
        async handle(messages) {
          handled.push(...messages.map(({ offset }) => offset))
          return messages.map(() => done)
        },
      })
    } else {
      await harness.startLanes({
        async handle({ offset }) {
          handled.push(offset)
          return done
        },
      })
    }
    const committed = async () => (await log.groupState('workers', topic.name)).committed[0]?.offset
    await eventually('all is committed', async () => (await committed()) === 3, 20_000)
    expect(handled).toEqual([0, 1])
    const read: number[] = []
    const range = { topic: topic.name, partition: 0, from: 0, to: 3, timeoutMs: 10_000 }
    await readRange(log, range, ({ offset }) => read.push(offset))
    expect(read).toEqual([0, 1])
  },
)
