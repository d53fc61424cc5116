/** Reads and writes the committed positions of a group, at its coordinator. */

import { type Connection, offsetCommitV8, offsetFetchV8 } from '@platformatic/kafka'
import type { CommittedPosition } from '../port.ts'
import type { Committing, NewPosition } from './commits.ts'

export interface GroupTopic {
  group: string
  topic: string
}

const notKnown = -1

/** Those of the partitions that have one. */
export async function fetchPositions(
  to: Connection,
  { group, topic }: GroupTopic,
  partitions: number[],
): Promise<CommittedPosition[]> {
  const asked = {
    groupId: group,
    memberEpoch: notKnown,
    topics: [{ name: topic, partitionIndexes: partitions }],
  }
  const { groups } = await offsetFetchV8.api.async(to, [asked], false)
  const found = groups.flatMap(({ topics }) => topics.flatMap((one) => one.partitions))
  return found.flatMap(({ partitionIndex: partition, committedOffset, metadata }) =>
    committedOffset < 0n ? [] : [{ partition, offset: Number(committedOffset), metadata: metadata ?? '' }],
  )
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
