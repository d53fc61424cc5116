/** What operators do with consumer groups: list them, read and set their positions, delete them. */

import type { Cluster, Kafka } from 'kafkajs'
import { AppError } from '#lib/errors.ts'
import type { CommittedPosition, GroupState } from '../port.ts'
import type { AdminCalls } from './admin.ts'
import { faultType } from './faults.ts'

export interface Groups {
  listGroups(): Promise<string[]>
  groupState(group: string, topic: string): Promise<GroupState>
  committed(group: string, topic: string): Promise<CommittedPosition[]>
  setPositions(
    group: string,
    topic: string,
    positions: { partition: number; offset: number }[],
  ): Promise<void>
  deleteGroup(group: string): Promise<void>
}

/** Groups that tails read under; they commit nothing and are removed when the tail ends. */
export const tailGroupPrefix = 'flotilla-tail-'

export function createGroups({ ask }: AdminCalls, kafka: Kafka): Groups {
  const committed = (group: string, topic: string) =>
    ask(async (admin) => {
      const topics = await admin.fetchOffsets({ groupId: group, topics: [topic] })
      const found = topics[0]?.partitions ?? []
      return found.flatMap(({ partition, offset, metadata }) =>
        Number(offset) < 0 ? [] : [{ partition, offset: Number(offset), metadata: metadata ?? '' }],
      )
    })
  return {
    committed,
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
        committed: positions,
      }
    },
    setPositions: (group, topic, positions) =>
      positions.length === 0
        ? Promise.resolve()
        : ask(() => commitForEmptyGroup(kafka, group, topic, positions)),
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
  kafka: Kafka,
  group: string,
  topic: string,
  positions: { partition: number; offset: number }[],
): Promise<void> {
  const cluster = clusterOf(kafka, group)
  await cluster.connect()
  try {
    await cluster.refreshMetadata()
    const coordinator = await cluster.findGroupCoordinator({ groupId: group })
    await coordinator.offsetCommit({
      groupId: group,
      groupGenerationId: -1,
      memberId: '',
      topics: [{ topic, partitions: positions.map((one) => ({ ...one, offset: String(one.offset) })) }],
    })
  } catch (error) {
    const type = faultType(error)
    if (type === 'UNKNOWN_MEMBER_ID' || type === 'ILLEGAL_GENERATION' || type === 'REBALANCE_IN_PROGRESS') {
      throw groupActive(group)
    }
    throw error
  } finally {
    await cluster.disconnect().catch(() => {})
  }
}

/** kafkajs hands its low-level client to partition assigners; a consumer that never runs is made to get it. */
function clusterOf(kafka: Kafka, groupId: string): Cluster {
  const found: Cluster[] = []
  kafka.consumer({
    groupId,
    allowAutoTopicCreation: false,
    partitionAssigners: [
      ({ cluster }) => {
        found.push(cluster)
        return {
          name: 'none',
          version: 0,
          assign: async () => [],
          protocol: () => ({ name: 'none', metadata: Buffer.alloc(0) }),
        }
      },
    ],
  })
  return found[0] as Cluster
}
