/** Shared by the groups of both drivers: the assignment of partitions, and the steps before one moves to another member. */

import { withTimeout } from '#lib/backoff.ts'
import { deadlines } from '#lib/deadlines.ts'
import type { ConsumerListener } from './port.ts'

const { handOverMs } = deadlines.session

/** Resolves when the listener has ended its work on these; rejects when it fails, or takes too long. */
export async function endWork(listener: ConsumerListener, partitions: number[]): Promise<void> {
  await withTimeout(
    Promise.resolve(listener.revoked?.(partitions)),
    handOverMs,
    () => new Error('handing over takes too long'),
  )
}

export interface Claim {
  memberId: string
  /** Generation of the assignment behind the claim: the younger of two claims for a partition wins. */
  generation: number
  partitions: number[]
}

/** Every partition to one member, shares that differ by one at most, owned partitions stay where the shares allow it. */
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
