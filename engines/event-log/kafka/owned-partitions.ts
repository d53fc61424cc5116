/** Keeps which partitions a member owns, and works out what an assignment changes. */

import type { Claim } from './assigner.ts'

/** What the coordinator has confirmed. */
export interface Joined {
  generation: number
  memberId: string
  partitions: number[]
  /** What is on its way to another member has no owner in this generation: the group shares out once more. */
  again: boolean
}

/** One ownership: a partition that was lost and gained again is another one. */
export interface OwnedPartition {
  readonly partition: number
  /** The listener knows of it: what it commits before is of an earlier ownership. */
  announced: boolean
}

interface OwnedPartitions {
  get(partition: number): OwnedPartition | undefined
  /** True while this very ownership lasts. */
  holds(owned: OwnedPartition): boolean
  all(): number[]
  member(): Joined | undefined
  claim(): Omit<Claim, 'memberId'>
  /** `revoked` are owned until `release`: nobody else has them before this member has joined again. */
  take(joined: Joined): { gained: OwnedPartition[]; lost: number[]; revoked: number[] }
  /** Forgets these; returns those that were owned. */
  release(partitions: number[]): number[]
  /** Forgets everything; returns what was owned. */
  clear(): number[]
}

export function createOwnedPartitions(): OwnedPartitions {
  const byNumber = new Map<number, OwnedPartition>()
  let member: Joined | undefined
  return {
    get: (partition) => byNumber.get(partition),
    holds: (owned) => byNumber.get(owned.partition) === owned,
    all: () => [...byNumber.keys()],
    member: () => member,
    claim: () => ({ generation: member?.generation ?? 0, partitions: [...byNumber.keys()] }),
    take(joined) {
      // A generation in between that this member did not see: others may have owned, and worked on, its partitions.
      const consecutive = member !== undefined && [0, 1].includes(joined.generation - member.generation)
      const kept = consecutive ? joined.partitions.filter((partition) => byNumber.has(partition)) : []
      const taken = [...byNumber.keys()].filter((partition) => !kept.includes(partition))
      const [lost, revoked] = consecutive && joined.again ? [[], taken] : [taken, []]
      for (const partition of lost) byNumber.delete(partition)
      const gained = joined.partitions
        .filter((partition) => !kept.includes(partition))
        .map((partition) => ({ partition, announced: false }))
      for (const owned of gained) byNumber.set(owned.partition, owned)
      member = joined
      return { gained, lost, revoked }
    },
    release: (partitions) => partitions.filter((partition) => byNumber.delete(partition)),
    clear() {
      const lost = [...byNumber.keys()]
      byNumber.clear()
      member = undefined
      return lost
    },
  }
}
