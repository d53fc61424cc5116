/** The members of one group on one topic; partitions are shared out again when members or partitions come or go. */

import { setImmediate as nextTurn } from 'node:timers/promises'
import type { GroupConsumer } from '../port.ts'
import type { Topic } from './topics.ts'

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

export interface Member {
  consumer: GroupConsumer
  gain(partitions: number[]): void
  /** Resolves when its work on these is finished or aborted, and it has lost them. Never rejects. */
  handOver(partitions: number[]): Promise<void>
}

/** The members that read one topic for one group, in the order of their coming. */
export interface Subscription {
  group: string
  topic: Topic
  members: Member[]
  /** Shares out again, soon: joins that come together make one rebalance. */
  rebalance(): void
}

export function createSubscription(group: string, topic: Topic): Subscription {
  let wanted = false
  let sharing = false
  async function shareUntilEven(): Promise<void> {
    sharing = true
    while (wanted) {
      await nextTurn()
      wanted = false
      await share(subscription)
    }
    sharing = false
  }
  const subscription: Subscription = {
    group,
    topic,
    members: [],
    rebalance() {
      wanted = true
      if (!sharing) void shareUntilEven()
    },
  }
  topic.watchers.add(() => subscription.rebalance())
  return subscription
}

/** All losses come before any gain, so that no partition ever has two owners. */
async function share({ topic, members }: Subscription): Promise<void> {
  const next = shareOut(
    topic.partitions.length,
    members.map((member) => member.consumer.assignment()),
  )
  const present = [...members]
  await Promise.all(
    present.map(async (member, m) => {
      const lost = member.consumer.assignment().filter((partition) => !next[m]!.includes(partition))
      if (lost.length > 0) await member.handOver(lost)
    }),
  )
  for (const [m, member] of present.entries()) {
    const owned = member.consumer.assignment()
    const gained = next[m]!.filter((partition) => !owned.includes(partition))
    if (gained.length > 0) member.gain(gained)
  }
}
