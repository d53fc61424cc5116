/** Asks the leaders of a topic's partitions where their logs begin and end. */

import { FetchIsolationLevels, ListOffsetTimestamps, listOffsetsV8 } from '@platformatic/kafka'
import { deadlines } from '#lib/deadlines.ts'
import type { PartitionRange } from '../port.ts'
import type { Cluster } from './cluster.ts'

export interface LogRanges {
  /** Of all partitions, or of some; in order. Throws when a leader does not answer, or is not known yet. */
  ranges(topic: string, partitions?: number[]): Promise<PartitionRange[]>
  /** The ends alone, of all partitions. */
  ends(topic: string): Promise<{ partition: number; end: number }[]>
}

const timeoutMs = deadlines.engine.logAskMs
const notKnown = -1

export function createLogRanges(cluster: Cluster): LogRanges {
  const connections = cluster.connections(timeoutMs)

  async function leadersOf(topic: string, wanted?: number[]): Promise<Map<number, number[]>> {
    const leaders = await cluster.leaders(topic)
    if (!leaders) throw new Error(`the topic ${topic} does not exist`)
    const some = wanted ? leaders.filter(({ partition }) => wanted.includes(partition)) : leaders
    if (some.some(({ leader }) => leader < 0) || (wanted && some.length < wanted.length)) {
      cluster.forgetLeaders(topic)
      throw new Error(`a partition of ${topic} has no leader yet`)
    }
    const byNode = new Map<number, number[]>()
    for (const { partition, leader } of some) {
      byNode.set(leader, [...(byNode.get(leader) ?? []), partition])
    }
    return byNode
  }
  async function offsetsAt(
    timestamp: bigint,
    topic: string,
    wanted?: number[],
  ): Promise<Map<number, number>> {
    const byNode = await leadersOf(topic, wanted)
    const asked = [...byNode].map(async ([node, partitions]) => {
      const answer = await listOffsetsV8.api.async(
        await connections.to(node),
        -1,
        FetchIsolationLevels.READ_UNCOMMITTED,
        [
          {
            name: topic,
            partitions: partitions.map((partitionIndex) => ({
              partitionIndex,
              currentLeaderEpoch: notKnown,
              timestamp,
            })),
          },
        ],
      )
      return answer.topics.flatMap(({ partitions }) => partitions)
    })
    try {
      const answers = (await Promise.all(asked)).flat()
      return new Map(answers.map(({ partitionIndex, offset }) => [partitionIndex, Number(offset)]))
    } catch (error) {
      cluster.forgetLeaders(topic)
      throw error
    }
  }
  return {
    async ranges(topic, partitions) {
      const [starts, ends] = await Promise.all([
        offsetsAt(ListOffsetTimestamps.EARLIEST, topic, partitions),
        offsetsAt(ListOffsetTimestamps.LATEST, topic, partitions),
      ])
      return [...ends.keys()]
        .sort((a, b) => a - b)
        .map((partition) => ({ partition, start: starts.get(partition)!, end: ends.get(partition)! }))
    },
    async ends(topic) {
      const ends = await offsetsAt(ListOffsetTimestamps.LATEST, topic)
      return [...ends].map(([partition, end]) => ({ partition, end }))
    },
  }
}
