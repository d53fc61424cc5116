/** Keeps the partitions that a member owns and where it reads in each, and works out what an assignment changes. */

import type { Claim } from './assigner.ts'
import type { Joined } from './membership.ts'

export interface OwnedPartition {
  partition: number
  /** The offset that is expected next; null while nothing may be delivered. */
  position: number | null
  /** Paused by the listener. */
  paused: boolean
}

export interface OwnedPartitions {
  get(partition: number): OwnedPartition | undefined
  /** True while this very ownership lasts: a partition that was lost and gained again is another one. */
  holds(owned: OwnedPartition): boolean
  all(): OwnedPartition[]
  member(): Joined | undefined
  claim(): Omit<Claim, 'memberId'>
  take(joined: Joined): { gained: OwnedPartition[]; lost: number[] }
  /** Forgets everything; returns what was owned. */
  clear(): number[]
}

export function createOwnedPartitions(): OwnedPartitions {
  const byNumber = new Map<number, OwnedPartition>()
  let member: Joined | undefined
  const partitions: OwnedPartitions = {
    get: (partition) => byNumber.get(partition),
    holds: (owned) => byNumber.get(owned.partition) === owned,
    all: () => [...byNumber.values()],
    member: () => member,
    claim: () => ({ generation: member?.generation ?? 0, partitions: [...byNumber.keys()] }),
    take(joined) {
      // A generation in between that this member did not see: others may have owned, and worked on, its partitions.
      const consecutive = member !== undefined && [0, 1].includes(joined.generation - member.generation)
      const kept = consecutive ? joined.partitions.filter((partition) => byNumber.has(partition)) : []
      const lost = [...byNumber.keys()].filter((partition) => !kept.includes(partition))
      for (const partition of lost) byNumber.delete(partition)
      const gained = joined.partitions
        .filter((partition) => !kept.includes(partition))
        .map((partition) => ({ partition, position: null, paused: false }))
      for (const owned of gained) byNumber.set(owned.partition, owned)
      member = joined
      return { gained, lost }
    },
    clear() {
      const lost = [...byNumber.keys()]
      byNumber.clear()
      member = undefined
      return lost
    },
  }
  return partitions
}
