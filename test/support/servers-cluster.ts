/** Which node of a Kafka cluster leads a partition. */

import { Kafka, logLevel } from 'kafkajs'

export async function leaderOf(brokers: string[], topic: string, partition: number): Promise<number> {
  const kafka = new Kafka({ brokers, clientId: 'leader-of', logLevel: logLevel.NOTHING })
  const admin = kafka.admin({ retry: { retries: 10, maxRetryTime: 1_000 } })
  await admin.connect()
  try {
    const { topics } = await admin.fetchTopicMetadata({ topics: [topic] })
    const found = topics[0]?.partitions.find((candidate) => candidate.partitionId === partition)
    if (!found) throw new Error(`${topic} has no partition ${partition}`)
    return found.leader
  } finally {
    await admin.disconnect()
  }
}
