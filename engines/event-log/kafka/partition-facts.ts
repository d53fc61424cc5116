/** Asks the brokers who leads the partitions of a topic, how many replicas are in sync, and how much room they take. */

import { describeLogDirsV4 } from '@platformatic/kafka'
import { deadlines } from '#lib/deadlines.ts'
import type { PartitionFacts } from '../port.ts'
import type { AdminCalls } from './admin.ts'
import type { DescribedPartition } from './admin-client.ts'
import type { Cluster, Connections } from './cluster.ts'
import { topicNotFound } from './faults.ts'

export function createPartitionFacts({ ask }: AdminCalls, cluster: Cluster) {
  const connections = cluster.connections(deadlines.engine.logRequestMs)
  return async (topic: string): Promise<PartitionFacts[]> => {
    const described = await ask((client) => client.describe(topic))
    if (described.partitions.length === 0) throw topicNotFound(topic)
    const sizes = await sizesOf(connections, topic, described.partitions)
    const brokers = new Map(
      described.brokers.map(({ node, address }) => [node, `${address} (${node})`] as const),
    )
    return described.partitions.map(({ partition, leader, replicas, inSync }) => ({
      partition,
      leader: brokers.get(leader) ?? null,
      replicas,
      inSync,
      bytes: sizes.get(partition) ?? null,
    }))
  }
}

/** Each leader knows the sizes of its own; of one that does not answer they are missing. */
async function sizesOf(
  connections: Connections,
  topic: string,
  led: readonly DescribedPartition[],
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
