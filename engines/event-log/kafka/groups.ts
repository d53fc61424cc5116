/** What operators do with consumer groups: list them, read and set their positions, delete them. */

import { deadlines } from '#lib/deadlines.ts'
import { AppError } from '#lib/errors.ts'
import type { CommittedPosition, GroupPositions, GroupState, GroupTopic } from '../port.ts'
import type { AdminCalls } from './admin.ts'
import { decodeAssignment } from './assigner.ts'
import type { Cluster, Connections } from './cluster.ts'
import { faultType, refusalOf } from './faults.ts'
import { commitPositions } from './group-offsets.ts'
import { createGroupPositions } from './group-positions.ts'
import type { LogRanges } from './log-ranges.ts'

export interface Groups {
  listGroups(): Promise<string[]>
  groupState(group: string, topic: string): Promise<GroupState>
  groupPositions(groups: readonly GroupTopic[]): Promise<GroupPositions[]>
  setPositions(
    group: string,
    topic: string,
    positions: { partition: number; offset: number }[],
  ): Promise<void>
  deleteGroup(group: string): Promise<void>
}

/** Groups of former releases' tails, which commit nothing; this release's tails have none. */
const tailGroupPrefix = 'flotilla-tail-'
const commitTimeoutMs = deadlines.engine.logRequestMs
const hasMembers: ReadonlySet<string> = new Set([
  'UNKNOWN_MEMBER_ID',
  'ILLEGAL_GENERATION',
  'REBALANCE_IN_PROGRESS',
])

export function createGroups({ ask }: AdminCalls, cluster: Cluster, ranges: LogRanges): Groups {
  const connections = cluster.connections(commitTimeoutMs)
  const committed = (group: string, topic: string): Promise<CommittedPosition[]> =>
    ask(async (admin) => {
      const topics = await admin.fetchOffsets({ groupId: group, topics: [topic] })
      const found = topics[0]?.partitions ?? []
      return found.flatMap(({ partition, offset, metadata }) =>
        Number(offset) < 0 ? [] : [{ partition, offset: Number(offset), metadata: metadata ?? '' }],
      )
    })
  return {
    listGroups: () =>
      ask(async (admin) => {
        const { groups } = await admin.listGroups()
        return groups.map(({ groupId }) => groupId).filter((group) => !group.startsWith(tailGroupPrefix))
      }),
    async groupState(group, topic) {
      const positions = await committed(group, topic)
      const described = await ask((admin) => admin.describeGroups([group]))
      const members = described.groups[0]?.members ?? []
      return {
        members: members.length,
        clientIds: [...new Set(members.map((member) => member.clientId))],
        owners: members.flatMap(({ clientId, memberAssignment }) =>
          ownedIn(topic, memberAssignment).map((partition) => ({ partition, clientId })),
        ),
        committed: positions,
      }
    },
    groupPositions: createGroupPositions(cluster, ranges),
    setPositions: (group, topic, positions) =>
      positions.length === 0
        ? Promise.resolve()
        : ask(() => commitForEmptyGroup(cluster, connections, { group, topic }, positions)),
    deleteGroup: (group) =>
      ask(async (admin) => {
        try {
          await admin.deleteGroups([group])
        } catch (error) {
          const type = deletionFault(error)
          if (type === 'GROUP_ID_NOT_FOUND') return
          if (type === 'NON_EMPTY_GROUP') throw groupActive(group)
          throw error
        }
      }),
  }
}

/** Between two assignments a member has none. */
function ownedIn(topic: string, assignment: Buffer): number[] {
  return assignment.length === 0 ? [] : decodeAssignment(topic, assignment).partitions
}

function groupActive(group: string): AppError {
  return new AppError('group_active', `The consumer group ${group} has members; stop them first.`)
}

/** kafkajs wraps the groups' errors in a list of its own. */
function deletionFault(error: unknown): string | null {
  const nested = (error as { groups?: { error?: unknown }[] }).groups?.[0]?.error
  const cause = (error as { cause?: { groups?: { error?: unknown }[] } }).cause?.groups?.[0]?.error
  return faultType(nested ?? cause ?? error)
}

/**
 * Commits without being a member (generation -1), which Kafka allows for a group that is empty. kafkajs's own
 * `setOffsets` joins the group for it: that takes longer, and the group's first true member would no longer see
 * generation 1, by which it knows that there was no member before.
 */
async function commitForEmptyGroup(
  cluster: Cluster,
  connections: Connections,
  names: GroupTopic,
  positions: { partition: number; offset: number }[],
): Promise<void> {
  const to = await connections.to(await cluster.coordinator('group', names.group))
  const nobody = { generation: -1, memberId: '' }
  try {
    await commitPositions(
      to,
      names,
      nobody,
      positions.map((one) => ({ ...one, metadata: '' })),
    )
  } catch (error) {
    if (hasMembers.has(refusalOf(error) ?? '')) throw groupActive(names.group)
    throw error
  }
}
