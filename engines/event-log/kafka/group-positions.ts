/** Where many groups are and what their topics hold: asked every few seconds, so by few requests. */

import { type Connection, offsetFetchV8 } from '@platformatic/kafka'
import { deadlines } from '#lib/deadlines.ts'
import { AppError } from '#lib/errors.ts'
import { logUnavailable } from '../faults.ts'
import type { CommittedPosition, GroupPositions, GroupTopic } from '../port.ts'
import type { Cluster } from './cluster.ts'
import type { LogRanges } from './log-ranges.ts'

const notKnown = -1

/** `groupPositions` of the log: one question to each coordinator, and two to each leader; where nothing is new, one to each leader. */
export function createGroupPositions(cluster: Cluster, ranges: LogRanges) {
  const asking = cluster.connections(deadlines.engine.logAskMs)

  async function readPositions(groups: readonly GroupTopic[]): Promise<GroupPositions[]> {
    const held = await ranges.rangesOf(groups.map(({ topic }) => topic))
    const placed = await Promise.all(
      groups.map(async ({ group, topic }) => ({
        asked: { group, topic, partitions: numbersOf(held.get(topic)!) },
        node: await cluster.coordinator(group),
      })),
    )
    const answers = [...Map.groupBy(placed, ({ node }) => node)].map(async ([node, led]) => {
      const found = await fetchPositions(
        await asking.to(node),
        led.map(({ asked }) => asked),
      )
      return led.map((one, index) => [one, found[index]!] as const)
    })
    const committed = new Map((await Promise.all(answers)).flat())
    return placed.map((one) => {
      const { group, topic } = one.asked
      return { group, topic, committed: committed.get(one)!, ranges: held.get(topic)! }
    })
  }
  /** Those that had read all, and whose logs end where they ended then. */
  async function stillRead(since: readonly GroupPositions[]): Promise<Map<string, GroupPositions>> {
    const done = since.filter(hasReadAll)
    const ends = await ranges.endsOf(done.map(({ topic }) => topic))
    const resting = done.filter((one) => {
      const now = ends.get(one.topic)!
      return (
        now.size === one.ranges.length && one.ranges.every(({ partition, end }) => now.get(partition) === end)
      )
    })
    return new Map(resting.map((one) => [nameOf(one), one]))
  }
  return async function groupPositions(
    groups: readonly GroupTopic[],
    since: readonly GroupPositions[] = [],
  ): Promise<GroupPositions[]> {
    for (let failures = 0; ; failures++) {
      try {
        const names = new Set(groups.map(nameOf))
        const resting = await stillRead(since.filter((one) => names.has(nameOf(one))))
        const moved = groups.filter((one) => !resting.has(nameOf(one)))
        const read = new Map((await readPositions(moved)).map((one) => [nameOf(one), one]))
        return groups.map((one) => (resting.get(nameOf(one)) ?? read.get(nameOf(one)))!)
      } catch (error) {
        if (error instanceof AppError) throw error
        // A coordinator or leader may have moved: then the second question finds it.
        for (const { group } of groups) cluster.forgetCoordinator(group)
        if (failures > 0) throw logUnavailable(error)
      }
    }
  }
}

/** Positions by group, in their order; partitions without one are absent. Rejects when one of the groups is refused. */
export async function fetchPositions(
  to: Connection,
  asked: readonly (GroupTopic & { partitions: number[] })[],
): Promise<CommittedPosition[][]> {
  const byGroup = Map.groupBy(asked, ({ group }) => group)
  const { groups } = await offsetFetchV8.api.async(
    to,
    [...byGroup].map(([groupId, parts]) => ({
      groupId,
      memberEpoch: notKnown,
      topics: parts.map(({ topic, partitions }) => ({ name: topic, partitionIndexes: partitions })),
    })),
    false,
  )
  return asked.map(({ group, topic }) => {
    const found = groups.find(({ groupId }) => groupId === group)?.topics.find(({ name }) => name === topic)
    return (found?.partitions ?? []).flatMap(({ partitionIndex: partition, committedOffset, metadata }) =>
      committedOffset < 0n ? [] : [{ partition, offset: Number(committedOffset), metadata: metadata ?? '' }],
    )
  })
}

export function numbersOf(partitions: readonly { partition: number }[]): number[] {
  return partitions.map(({ partition }) => partition)
}

function nameOf({ group, topic }: GroupTopic): string {
  return `${group}\n${topic}`
}

function hasReadAll({ committed, ranges }: GroupPositions): boolean {
  const positions = new Map(committed.map(({ partition, offset }) => [partition, offset]))
  return ranges.every(({ partition, start, end }) => (positions.get(partition) ?? start) >= end)
}
