/** Reads and writes the committed positions of a group, at its coordinator. */

import { type Connection, offsetCommitV8, offsetFetchV8 } from '@platformatic/kafka'
import type { CommittedPosition, GroupTopic } from '../port.ts'
import type { Committing, NewPosition } from './commits.ts'

export interface GroupPartitions extends GroupTopic {
  partitions: number[]
}

const notKnown = -1

/** Of each group, in their order, those of its partitions that have one. Rejects when one of the groups is refused. */
export async function fetchPositions(
  to: Connection,
  asked: readonly GroupPartitions[],
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

/** Rejects when one of them is refused. */
export async function commitPositions(
  to: Connection,
  { group, topic }: GroupTopic,
  { generation, memberId }: Committing,
  positions: NewPosition[],
): Promise<void> {
  const partitions = positions.map(({ partition, offset, metadata }) => ({
    partitionIndex: partition,
    committedOffset: BigInt(offset),
    committedLeaderEpoch: notKnown,
    committedMetadata: metadata,
  }))
  await offsetCommitV8.api.async(to, group, generation, memberId, null, [{ name: topic, partitions }])
}
