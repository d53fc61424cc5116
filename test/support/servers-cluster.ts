/** A Kafka cluster of three brokers (replication 3, two in sync) whose nodes a fault test kills and starts. */

import { Kafka, logLevel } from 'kafkajs'
import { type KafkaCluster, openKafkaCluster } from '../../scripts/servers/kafka.ts'

export interface TestCluster extends KafkaCluster {
  /** The node that leads a partition now. */
  leaderOf(topic: string, partition: number): Promise<number>
}

/** Open it in `beforeAll` (with a time-out of minutes: the first run downloads), close it in `afterAll`. */
export async function openTestCluster(): Promise<TestCluster> {
  const cluster = await openKafkaCluster(3)
  async function leaderOf(topic: string, partition: number): Promise<number> {
    const kafka = new Kafka({ brokers: cluster.brokers, clientId: 'leader-of', logLevel: logLevel.NOTHING })
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
  return { ...cluster, leaderOf }
}
