/**
 * Decides which member of a group reads which partition; members keep what they have as far as the shares remain
 * even.
 */

/**
 * Shares out partitions 0 … `partitions` - 1. `owned[m]` is what member m has now; the answer is what it shall have.
 * Shares differ by one at most, and as few partitions move as that allows.
 */
export function shareOut(partitions: number, owned: readonly (readonly number[])[]): number[][] {
  const members = owned.length
  if (members === 0) return []
  const share = Math.floor(partitions / members)
  const larger = partitions % members
  // The larger shares go to those who have most, so that nothing moves needlessly.
  const byWealth = owned.map((_, m) => m).toSorted((a, b) => owned[b]!.length - owned[a]!.length || a - b)
  const quota = new Map(byWealth.map((m, rank) => [m, share + (rank < larger ? 1 : 0)]))
  const result = owned.map((has, m) => has.filter((p) => p < partitions).slice(0, quota.get(m)))
  const taken = new Set(result.flat())
  const free = Array.from({ length: partitions }, (_, p) => p).filter((p) => !taken.has(p))
  for (const [m, has] of result.entries()) has.push(...free.splice(0, quota.get(m)! - has.length))
  return result
}
