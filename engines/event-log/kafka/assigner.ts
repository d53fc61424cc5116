/**
 * Sticky assignment: each member reports what it owns, and the leader moves as few partitions as an even share
 * needs.
 */

import kafkajs, { type Assigner, type Cluster } from 'kafkajs'

export interface Claim {
  memberId: string
  /** Of the assignment that the claim comes from: of two claims for a partition the younger wins. */
  generation: number
  partitions: number[]
}

const { MemberAssignment, MemberMetadata } = kafkajs.AssignerProtocol
const name = 'flotilla-sticky'
const version = 1

/** `owned` is asked each time the member joins. */
export function createStickyAssigner(cluster: Cluster, owned: () => Omit<Claim, 'memberId'>): Assigner {
  return {
    name,
    version,
    protocol: ({ topics }) => ({
      name,
      metadata: MemberMetadata.encode({ version, topics, userData: Buffer.from(JSON.stringify(owned())) }),
    }),
    async assign({ members, topics }) {
      // A group of ours reads one topic.
      const topic = topics[0] as string
      const partitions = cluster.findTopicPartitionMetadata(topic).map((one) => one.partitionId)
      const claims = members.map(({ memberId, memberMetadata }) => ({
        memberId,
        ...readClaim(memberMetadata),
      }))
      return [...assignSticky(claims, partitions)].map(([memberId, own]) => ({
        memberId,
        memberAssignment: MemberAssignment.encode({
          version,
          assignment: { [topic]: own },
          userData: Buffer.alloc(0),
        }),
      }))
    },
  }
}

/** Every partition to one member, shares that differ by one at most, what is owned stays where the shares allow it. */
export function assignSticky(claims: Claim[], partitions: number[]): Map<string, number[]> {
  const members = [...claims].sort(
    (a, b) =>
      b.generation - a.generation ||
      b.partitions.length - a.partitions.length ||
      (a.memberId < b.memberId ? -1 : 1),
  )
  const shares = new Map<string, number[]>(members.map(({ memberId }) => [memberId, []]))
  const free = new Set(partitions)
  const least = Math.floor(partitions.length / members.length)
  let extra = partitions.length % members.length
  for (const { memberId, partitions: claimed } of members) {
    const own = claimed.filter((partition) => free.has(partition))
    const most = own.length > least && extra > 0 ? least + 1 : least
    if (most > least) extra--
    for (const partition of own.slice(0, most)) {
      shares.get(memberId)!.push(partition)
      free.delete(partition)
    }
  }
  for (const partition of free) {
    const [memberId] = [...shares].reduce((a, b) => (b[1].length < a[1].length ? b : a))
    shares.get(memberId)!.push(partition)
  }
  return shares
}

function readClaim(memberMetadata: Buffer): Omit<Claim, 'memberId'> {
  try {
    const { userData } = MemberMetadata.decode(memberMetadata) ?? {}
    const claim = JSON.parse(userData?.toString() ?? '') as Omit<Claim, 'memberId'>
    return { generation: claim.generation, partitions: [...claim.partitions] }
  } catch {
    return { generation: 0, partitions: [] }
  }
}
