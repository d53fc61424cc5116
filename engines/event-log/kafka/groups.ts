/**
 * Consumer groups at their coordinators: lists and deletes them, reads and sets their positions.
 *
 * Assignment is sticky: each member says what it owns, and the leader of the group moves as few partitions as an even share
 * needs. A partition that moves is first taken from its owner; only when all have joined again, without it, does the next one
 * get it.
 */

import {
  type Connection,
  decodeConsumerProtocolAssignment,
  decodeConsumerProtocolSubscription,
  deleteGroupsV2,
  describeGroupsV5,
  encodeConsumerProtocolAssignment,
  encodeConsumerProtocolSubscription,
  listGroupsV4,
  offsetCommitV8,
} from '@platformatic/kafka'
import { deadlines } from '#lib/deadlines.ts'
import { groupActive } from '../faults.ts'
import { assignSticky, type Claim } from '../membership.ts'
import type { CommittedPosition, GroupState, GroupTopic } from '../port.ts'
import { type RepeatedCalls, refusalOf } from './calls.ts'
import type { Cluster } from './cluster.ts'
import { createGroupPositions, fetchPositions, numbersOf } from './group-positions.ts'
import type { LogRanges } from './log-ranges.ts'

/** Under whose name something is committed. */
export interface Committing {
  generation: number
  memberId: string
}

/** Groups of former releases' tails, which commit nothing; this release's tails have none. */
const tailGroupPrefix = 'flotilla-tail-'
const notKnown = -1
const hasMembers: ReadonlySet<string> = new Set([
  'UNKNOWN_MEMBER_ID',
  'ILLEGAL_GENERATION',
  'REBALANCE_IN_PROGRESS',
])

export function createGroups({ ask }: RepeatedCalls, cluster: Cluster, ranges: LogRanges) {
  const connections = cluster.connections(deadlines.engine.logRequestMs)

  function committed(group: string, topic: string): Promise<CommittedPosition[]> {
    return ask(async () => {
      const partitions = numbersOf((await cluster.topics.now(topic)) ?? [])
      const asked = [{ group, topic, partitions }]
      const [found] = await cluster.atCoordinator(group, connections, (to) => fetchPositions(to, asked))
      return found!
    })
  }
  function members(group: string) {
    return ask(() =>
      cluster.atCoordinator(group, connections, async (to) => {
        const { groups } = await describeGroupsV5.api.async(to, [group], false)
        return groups[0]?.members ?? []
      }),
    )
  }
  return {
    groupPositions: createGroupPositions(cluster, ranges),
    listGroups: (): Promise<string[]> =>
      ask(async () => {
        const { brokers } = await cluster.metadata([])
        const answers = brokers.map(async ({ nodeId }) =>
          listGroupsV4.api.async(await connections.to(nodeId), [], []),
        )
        const ids = (await Promise.all(answers)).flatMap(({ groups }) => groups.map(({ groupId }) => groupId))
        return ids.filter((group) => !group.startsWith(tailGroupPrefix))
      }),
    async groupState(group: string, topic: string): Promise<GroupState> {
      const positions = await committed(group, topic)
      const present = await members(group)
      return {
        members: present.length,
        clientIds: [...new Set(present.map((member) => member.clientId))],
        owners: present.flatMap(({ clientId, memberAssignment }) =>
          ownedIn(topic, memberAssignment).map((partition) => ({ partition, clientId })),
        ),
        committed: positions,
      }
    },
    /**
     * Commits without being a member (generation -1), which Kafka allows for a group that is empty. Joining the group for
     * it would take longer, and the group's first true member would no longer see generation 1, by which it knows that
     * there was no member before.
     */
    async setPositions(
      group: string,
      topic: string,
      positions: { partition: number; offset: number }[],
    ): Promise<void> {
      if (positions.length === 0) return
      const nobody = { generation: -1, memberId: '' }
      const rows = positions.map((one) => ({ ...one, metadata: '' }))
      await ask(() =>
        cluster
          .atCoordinator(group, connections, (to) => commitPositions(to, { group, topic }, nobody, rows))
          .catch((error: unknown) => {
            throw hasMembers.has(refusalOf(error) ?? '') ? groupActive(group) : error
          }),
      )
    },
    deleteGroup: (group: string): Promise<void> =>
      ask(async () => {
        try {
          await cluster.atCoordinator(group, connections, (to) => deleteGroupsV2.api.async(to, [group]))
        } catch (error) {
          const refusal = refusalOf(error)
          if (refusal === 'NON_EMPTY_GROUP') throw groupActive(group)
          if (refusal !== 'GROUP_ID_NOT_FOUND') throw error
        }
      }),
  }
}

/** Rejects when one of them is refused. */
export async function commitPositions(
  to: Connection,
  { group, topic }: GroupTopic,
  { generation, memberId }: Committing,
  positions: CommittedPosition[],
): Promise<void> {
  const partitions = positions.map(({ partition, offset, metadata }) => ({
    partitionIndex: partition,
    committedOffset: BigInt(offset),
    committedLeaderEpoch: notKnown,
    committedMetadata: metadata,
  }))
  await offsetCommitV8.api.async(to, group, generation, memberId, null, [{ name: topic, partitions }])
}

/** Between two assignments a member has none. */
function ownedIn(topic: string, assignment: Buffer): number[] {
  return assignment.length === 0 ? [] : decodeAssignment(topic, assignment).partitions
}

interface Assignment {
  partitions: number[]
  /** Partitions are on their way from one member to another: all join again at once. */
  again: boolean
}

/** Names and forms that members of all releases in a group understand. */
export const assignerName = 'flotilla-sticky'
const version = 1

export function encodeClaim(topic: string, claim: Omit<Claim, 'memberId'>): Buffer {
  return encodeConsumerProtocolSubscription({ version, topics: [topic], userData: JSON.stringify(claim) })
}

/** For the leader: what each member gets, of the partitions that are known, and of how many. */
export function encodeAssignments(
  topic: string,
  members: { memberId: string; metadata: Buffer | null }[],
  known: number[],
): { assignments: { memberId: string; assignment: Buffer }[]; total: number } {
  const claims = members.map(({ memberId, metadata }) => ({ memberId, ...readClaim(metadata) }))
  // A broker that has just started may not know all of them yet: nobody loses what it owns for that.
  const all = new Set([...known, ...claims.flatMap(({ partitions }) => partitions)])
  const { shares, again } = assignReleased(claims, [...all])
  const userData = JSON.stringify({ again })
  const assignments = [...shares].map(([memberId, own]) => ({
    memberId,
    assignment: encodeConsumerProtocolAssignment({
      version,
      assignedPartitions: [{ topic, partitions: own }],
      userData,
    }),
  }))
  return { assignments, total: all.size }
}

export function decodeAssignment(topic: string, assignment: Buffer): Assignment {
  const { assignedPartitions, userData } = decodeConsumerProtocolAssignment(assignment)
  const own = assignedPartitions.find((one) => one.topic === topic)
  return { partitions: own?.partitions ?? [], again: userData.toString() === '{"again":true}' }
}

/** As `assignSticky`, without what another member than its next owner still claims. */
export function assignReleased(
  claims: Claim[],
  partitions: number[],
): { shares: Map<string, number[]>; again: boolean } {
  const owners = Map.groupBy(
    claims.flatMap(({ memberId, partitions: own }) => own.map((partition) => ({ memberId, partition }))),
    ({ partition }) => partition,
  )
  const isFree = (partition: number, memberId: string) =>
    (owners.get(partition) ?? []).every((owner) => owner.memberId === memberId)
  const claimsIt = (partition: number, memberId: string) =>
    owners.get(partition)?.some((owner) => owner.memberId === memberId)
  let again = false
  const shares = [...assignSticky(claims, partitions)].map(([memberId, share]): [string, number[]] => {
    const own = share.filter((partition) => claimsIt(partition, memberId) || isFree(partition, memberId))
    if (own.length < share.length) again = true
    return [memberId, own]
  })
  return { shares: new Map(shares), again }
}

function readClaim(metadata: Buffer | null): Omit<Claim, 'memberId'> {
  try {
    const { userData } = decodeConsumerProtocolSubscription(metadata ?? Buffer.alloc(0))
    const claim = JSON.parse(userData.toString()) as Omit<Claim, 'memberId'>
    return { generation: claim.generation, partitions: [...claim.partitions] }
  } catch {
    return { generation: 0, partitions: [] }
  }
}
