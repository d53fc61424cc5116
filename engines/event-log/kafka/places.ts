/** The partitions that a member owns and where it reads in each: assignments in, what was gained and lost out. */

import type { Claim } from './assigner.ts'
import type { Joined } from './membership.ts'

export interface Place {
  partition: number
  /** The offset that is expected next; null while nothing may be delivered. */
  position: number | null
  /** Paused by the listener. */
  paused: boolean
}

export interface Places {
  get(partition: number): Place | undefined
  /** True while this very ownership lasts: a partition that was lost and gained again is another place. */
  holds(place: Place): boolean
  all(): Place[]
  member(): Joined | undefined
  claim(): Omit<Claim, 'memberId'>
  take(joined: Joined): { gained: Place[]; lost: number[] }
  /** Forgets everything; returns what was owned. */
  clear(): number[]
}

export function createPlaces(): Places {
  const owned = new Map<number, Place>()
  let member: Joined | undefined
  const places: Places = {
    get: (partition) => owned.get(partition),
    holds: (place) => owned.get(place.partition) === place,
    all: () => [...owned.values()],
    member: () => member,
    claim: () => ({ generation: member?.generation ?? 0, partitions: [...owned.keys()] }),
    take(joined) {
      // A generation in between that this member did not see: others may have owned, and worked on, its partitions.
      const consecutive = member !== undefined && [0, 1].includes(joined.generation - member.generation)
      const kept = consecutive ? joined.partitions.filter((partition) => owned.has(partition)) : []
      const lost = [...owned.keys()].filter((partition) => !kept.includes(partition))
      for (const partition of lost) owned.delete(partition)
      const gained = joined.partitions
        .filter((partition) => !kept.includes(partition))
        .map((partition) => ({ partition, position: null, paused: false }))
      for (const place of gained) owned.set(place.partition, place)
      member = joined
      return { gained, lost }
    },
    clear() {
      const lost = [...owned.keys()]
      owned.clear()
      member = undefined
      return lost
    },
  }
  return places
}
