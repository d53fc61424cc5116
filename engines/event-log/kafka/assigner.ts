/**
 * Sticky assignment: each member says what it owns, and the leader of the group moves as few partitions as an even share
 * needs. A partition that moves is first taken from its owner; only when all have joined again, without it, does the
 * next one get it.
 */

import {
  decodeConsumerProtocolAssignment,
  decodeConsumerProtocolSubscription,
  encodeConsumerProtocolAssignment,
  encodeConsumerProtocolSubscription,
} from '@platformatic/kafka'
import { assignSticky, type Claim } from '../membership.ts'

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
