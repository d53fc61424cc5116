/** The event log on Kafka; its parts are in kafka/. */

import { deadlines } from '#lib/deadlines.ts'
import { createAdminCalls } from './kafka/admin.ts'
import { createClient, type KafkaOptions } from './kafka/client.ts'
import { openConsumer } from './kafka/consumer.ts'
import { partitionNotFound } from './kafka/faults.ts'
import { createGroups } from './kafka/groups.ts'
import { createProducer } from './kafka/producer.ts'
import { createSender } from './kafka/sender.ts'
import { openTail } from './kafka/tail.ts'
import { createTopicFacts } from './kafka/topic-facts.ts'
import { createTopics } from './kafka/topics.ts'
import type { EventLog } from './port.ts'

export type { KafkaOptions }

const sessionTimeoutMs = deadlines.session.defaultMs
const fetchBytesMax = 1_048_576
const pingTimeoutMs = deadlines.engine.pingMs

/**
 * Resolves at once, also while no broker answers. Then calls fail with AppError `log_unavailable` after their
 * time-outs, readers wait, and all go on by themselves when the brokers are back.
 */
export async function openKafkaLog(options: KafkaOptions): Promise<EventLog> {
  const { log } = options
  const admin = createAdminCalls(createClient(options, 0))
  const memberClient = createClient(options, 4)
  const topics = createTopics(admin, options.replicationFactor)
  const groups = createGroups(admin, createClient(options, 1))
  const facts = createTopicFacts(topics)
  const producer = createProducer(createSender(createClient(options, 0)), facts)
  const readers = new Set<{ close(): Promise<void> }>()
  let closing: Promise<void> | undefined

  const partsFor = (topic: string) => ({
    kafka: memberClient,
    log,
    offsets: () => topics.offsets(topic),
    isCompacted: async () => (await topics.describeTopic(topic))?.cleanup === 'compact',
  })
  function remember<T extends { close(): Promise<void> }>(reader: T): T {
    readers.add(reader)
    const close = reader.close
    reader.close = () => {
      readers.delete(reader)
      return close()
    }
    return reader
  }
  async function close(): Promise<void> {
    await Promise.all([producer.close(), ...[...readers].map((reader) => reader.close())])
    await admin.close()
  }
  return {
    driver: 'kafka',
    clientId: options.clientId,
    ...topics,
    ...groups,
    async append(topic, partition, records, { timeoutMs } = {}) {
      if (records.length > 0) return producer.append(topic, partition, records, timeoutMs)
      const range = (await topics.offsets(topic, timeoutMs)).find((one) => one.partition === partition)
      if (!range) throw partitionNotFound(topic, partition)
      return range.end
    },
    async deleteTopic(name) {
      await topics.deleteTopic(name)
      facts.forget(name)
    },
    async addPartitions(name, total) {
      await topics.addPartitions(name, total)
      facts.forget(name)
    },
    consume: async ({ group, topic, listener, ...limits }) =>
      remember(
        openConsumer({ group, topic, sessionTimeoutMs, fetchBytesMax, ...limits }, listener, {
          ...partsFor(topic),
          committed: () => groups.committed(group, topic),
        }),
      ),
    tail: async (tail) =>
      remember(openTail(tail, { ...partsFor(tail.topic), deleteGroup: groups.deleteGroup })),
    async ping(timeoutMs = pingTimeoutMs) {
      await admin.ask((client) => client.describeCluster(), timeoutMs)
    },
    close() {
      closing ??= close()
      return closing
    },
  }
}
