/**
 * Reads where many groups are and what their topics hold with one question to each coordinator and each leader. It is
 * asked every few seconds.
 */

import { deadlines } from '#lib/deadlines.ts'
import { AppError } from '#lib/errors.ts'
import type { CommittedPosition, GroupPositions, GroupTopic, PartitionRange } from '../port.ts'
import type { Cluster } from './cluster.ts'
import { logUnavailable } from './faults.ts'
import { fetchPositions, type GroupPartitions } from './group-offsets.ts'
import type { LogRanges } from './log-ranges.ts'

export function createGroupPositions(
  cluster: Cluster,
  ranges: LogRanges,
): (groups: readonly GroupTopic[]) => Promise<GroupPositions[]> {
  const connections = cluster.connections(deadlines.engine.logAskMs)
  const coordinators = new Map<string, number>()

  async function coordinatorOf(group: string): Promise<number> {
    const node = coordinators.get(group) ?? (await cluster.coordinator('group', group))
    coordinators.set(group, node)
    return node
  }
  async function committedOf(
    asked: readonly GroupPartitions[],
  ): Promise<Map<GroupPartitions, CommittedPosition[]>> {
    const placed = await Promise.all(
      asked.map(async (one) => ({ one, node: await coordinatorOf(one.group) })),
    )
    const answers = [...Map.groupBy(placed, ({ node }) => node)].map(async ([node, led]) => {
      const ofNode = led.map(({ one }) => one)
      const found = await fetchPositions(await connections.to(node), ofNode)
      return ofNode.map((one, index) => [one, found[index]!] as const)
    })
    return new Map((await Promise.all(answers)).flat())
  }
  async function read(groups: readonly GroupTopic[]): Promise<GroupPositions[]> {
    const held = await ranges.rangesOf(groups.map(({ topic }) => topic))
    const asked = groups.map(({ group, topic }) => ({
      group,
      topic,
      partitions: numbersOf(held.get(topic)!),
    }))
    const committed = await committedOf(asked)
    return asked.map((one) => {
      const { group, topic } = one
      return { group, topic, committed: committed.get(one)!, ranges: held.get(topic)! }
    })
  }
  return async (groups) => {
    for (let failures = 0; ; failures++) {
      try {
        return await read(groups)
      } catch (error) {
        if (error instanceof AppError) throw error
        // A coordinator or leader may have moved: then the second question finds it.
        coordinators.clear()
        if (failures > 0) throw logUnavailable(error)
      }
    }
  }
}

function numbersOf(ranges: readonly PartitionRange[]): number[] {
  return ranges.map(({ partition }) => partition)
}
