/** What operators do with consumer groups: list them, read and set their positions, delete them. */

import type { Connection } from '@platformatic/kafka'
import { deadlines } from '#lib/deadlines.ts'
import { AppError } from '#lib/errors.ts'
import type { GroupPositions, GroupState, GroupTopic } from '../port.ts'
import type { AdminCalls } from './admin.ts'
import { decodeAssignment } from './assigner.ts'
import type { Cluster } from './cluster.ts'
import { refusalOf } from './faults.ts'
import { commitPositions, fetchPositions } from './group-offsets.ts'
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
  const toCoordinator = async (group: string) => connections.to(await cluster.coordinator('group', group))
  const committed = (group: string, topic: string) =>
    ask(async (client) => {
      const { partitions } = await client.describe(topic)
      const asked = { group, topic, partitions: partitions.map(({ partition }) => partition) }
      const [found] = await fetchPositions(await toCoordinator(group), [asked])
      return found!
    })
  return {
    listGroups: () =>
      ask(async (client) =>
        (await client.listGroups()).filter((group) => !group.startsWith(tailGroupPrefix)),
      ),
    async groupState(group, topic) {
      const positions = await committed(group, topic)
      const members = await ask((client) => client.members(group))
      return {
        members: members.length,
        clientIds: [...new Set(members.map((member) => member.clientId))],
        owners: members.flatMap(({ clientId, assignment }) =>
          ownedIn(topic, assignment).map((partition) => ({ partition, clientId })),
        ),
        committed: positions,
      }
    },
    groupPositions: createGroupPositions(cluster, ranges),
    setPositions: (group, topic, positions) =>
      positions.length === 0
        ? Promise.resolve()
        : ask(async () => commitForEmptyGroup(await toCoordinator(group), { group, topic }, positions)),
    deleteGroup: (group) =>
      ask((client) =>
        client.deleteGroup(group).catch((error: unknown) => {
          const refusal = refusalOf(error)
          if (refusal === 'GROUP_ID_NOT_FOUND') return
          if (refusal === 'NON_EMPTY_GROUP') throw groupActive(group)
          throw error
        }),
      ),
  }
}

/** Between two assignments a member has none. */
function ownedIn(topic: string, assignment: Buffer): number[] {
  return assignment.length === 0 ? [] : decodeAssignment(topic, assignment).partitions
}

function groupActive(group: string): AppError {
  return new AppError('group_active', `The consumer group ${group} has members; stop them first.`)
}

/**
 * Commits without being a member (generation -1), which Kafka allows for a group that is empty. Joining the group for it
 * would take longer, and the group's first true member would no longer see generation 1, by which it knows that there
 * was no member before.
 */
async function commitForEmptyGroup(
  to: Connection,
  names: GroupTopic,
  positions: { partition: number; offset: number }[],
): Promise<void> {
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
