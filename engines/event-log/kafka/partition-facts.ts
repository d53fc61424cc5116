/** Asks the brokers who leads the partitions of a topic, how many replicas are in sync, and how much room they take. */

import { describeLogDirsV4 } from '@platformatic/kafka'
import type { Admin } from 'kafkajs'
import { deadlines } from '#lib/deadlines.ts'
import type { PartitionFacts } from '../port.ts'
import type { AdminCalls } from './admin.ts'
import type { Cluster, Connections } from './cluster.ts'
import { topicNotFound } from './faults.ts'

interface Led {
  partition: number
  /** -1 while nobody leads it. */
  leader: number
  replicas: number
  inSync: number
}

export function createPartitionFacts({ ask }: AdminCalls, cluster: Cluster) {
  const connections = cluster.connections(deadlines.engine.logRequestMs)
  return async (topic: string): Promise<PartitionFacts[]> => {
    const { led, brokers } = await ask((admin) => leadersOf(admin, topic))
    const sizes = await sizesOf(connections, topic, led)
    return led.map(({ partition, leader, replicas, inSync }) => ({
      partition,
      leader: brokers.get(leader) ?? null,
      replicas,
      inSync,
      bytes: sizes.get(partition) ?? null,
    }))
  }
}

async function leadersOf(admin: Admin, topic: string): Promise<{ led: Led[]; brokers: Map<number, string> }> {
  const [{ topics }, { brokers }] = await Promise.all([admin.fetchTopicMetadata(), admin.describeCluster()])
  const found = topics.find(({ name }) => name === topic)
  if (!found) throw topicNotFound(topic)
  return {
    led: found.partitions
      .map(({ partitionId, leader, replicas, isr }) => ({
        partition: partitionId,
        leader,
        replicas: replicas.length,
        inSync: isr.length,
      }))
      .sort((a, b) => a.partition - b.partition),
    brokers: new Map(brokers.map(({ nodeId, host, port }) => [nodeId, `${host}:${port} (${nodeId})`])),
  }
}

/** Each leader knows the sizes of its own; of one that does not answer they are missing. */
async function sizesOf(
  connections: Connections,
  topic: string,
  led: readonly Led[],
): Promise<Map<number, number>> {
  const sizes = new Map<number, number>()
  const byNode = Map.groupBy(
    led.filter(({ leader }) => leader >= 0),
    ({ leader }) => leader,
  )
  const asked = [...byNode].map(async ([node, own]) => {
    const wanted = [{ name: topic, partitions: own.map(({ partition }) => partition) }]
    const { results } = await describeLogDirsV4.api.async(await connections.to(node), wanted)
    for (const { topics } of results) {
      for (const { partitionIndex, partitionSize, isFutureKey } of topics.flatMap((one) => one.partitions)) {
        if (!isFutureKey) sizes.set(partitionIndex, Number(partitionSize))
      }
    }
  })
  await Promise.allSettled(asked)
  return sizes
}
