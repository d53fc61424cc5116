/** The members of one group on one topic; partitions are shared out again when members or partitions come or go. */

import type { GroupConsumer } from '../port.ts'
import { shareOut } from './assignment.ts'
import type { PartitionReader } from './partition-reader.ts'
import type { Positions } from './positions.ts'
import type { Topic } from './topics.ts'

export interface Member {
  consumer: GroupConsumer
  gain(partitions: number[]): void
  lose(partitions: number[]): void
}

/** The members that read one topic for one group, in the order of their coming. */
export interface Subscription {
  group: string
  topic: Topic
  members: Member[]
  /** Partitions whose last owner may still be working on records that it did not commit. */
  unfinished: Set<number>
  /** Shares out again, soon: joins that come together make one rebalance. */
  rebalance(): void
}

export function createSubscription(group: string, topic: Topic): Subscription {
  let scheduled = false
  const subscription: Subscription = {
    group,
    topic,
    members: [],
    unfinished: new Set(),
    rebalance() {
      if (scheduled) return
      scheduled = true
      setImmediate(() => {
        scheduled = false
        share(subscription)
      })
    },
  }
  topic.watchers.add(() => subscription.rebalance())
  return subscription
}

/** All losses come before any gain, so that no partition ever has two owners. */
function share({ topic, members }: Subscription): void {
  const next = shareOut(
    topic.partitions.length,
    members.map((member) => member.consumer.assignment()),
  )
  const present = [...members]
  for (const [m, member] of present.entries()) {
    const lost = member.consumer.assignment().filter((partition) => !next[m]!.includes(partition))
    if (lost.length > 0) member.lose(lost)
  }
  for (const [m, member] of present.entries()) {
    const owned = member.consumer.assignment()
    const gained = next[m]!.filter((partition) => !owned.includes(partition))
    if (gained.length > 0) member.gain(gained)
  }
}

/** Notes what a partition's former owner leaves behind. */
export function noteLoss(
  subscription: Subscription,
  positions: Positions,
  partition: number,
  reader: PartitionReader,
): void {
  // One that never started leaves behind what it found.
  if (!reader.started()) return
  const committed = positions.get(subscription.group, subscription.topic.spec.name, partition)?.offset ?? -1
  if (reader.deliveredTo() > committed) subscription.unfinished.add(partition)
  else subscription.unfinished.delete(partition)
}
