/** Consumer groups in the memory of the one process: who is in, who owns what, whose work may still be running. */

import type { ConsumeOptions, GroupConsumer } from '../port.ts'
import { shareOut } from './assignment.ts'
import { createMember, type Member } from './member.ts'
import type { PartitionReader, ReaderOptions } from './partition-reader.ts'
import type { Topic } from './places.ts'
import type { Positions } from './positions.ts'
import type { WriteQueue } from './write-queue.ts'

export interface GroupParts {
  positions: Positions
  queue: WriteQueue
  fetch: ReaderOptions['fetch']
  fault(error: unknown): void
  /** False when the threads are gone. */
  alive(): boolean
}

export interface Groups {
  join(topic: Topic, options: ConsumeOptions): GroupConsumer
  /** Members of a group, of one topic or of all. */
  members(group: string, topic?: string): number
  names(): string[]
  closeAll(): Promise<void>
}

/** The members that read one topic for one group, in the order of their coming. */
export interface Subscription {
  group: string
  topic: Topic
  members: Member[]
  /** Partitions whose last owner may still be working on records that it did not commit. */
  unfinished: Set<number>
  /** Shares out anew, soon: joins of one moment make one rebalance. */
  rebalance(): void
}

export function createGroups(parts: GroupParts): Groups {
  const subscriptions = new Map<string, Map<Topic, Subscription>>()

  function subscriptionOf(group: string, topic: Topic): Subscription {
    const topics = subscriptions.get(group) ?? new Map<Topic, Subscription>()
    subscriptions.set(group, topics)
    const known = topics.get(topic)
    if (known) return known
    const subscription = createSubscription(group, topic)
    topics.set(topic, subscription)
    return subscription
  }
  const all = () => [...subscriptions.values()].flatMap((topics) => [...topics.values()])
  return {
    join(topic, options) {
      const subscription = subscriptionOf(options.group, topic)
      const member = createMember(subscription, options, parts)
      subscription.members.push(member)
      subscription.rebalance()
      return member.consumer
    },
    members: (group, topic) =>
      [...(subscriptions.get(group)?.values() ?? [])]
        .filter((one) => topic === undefined || one.topic.spec.name === topic)
        .reduce((sum, one) => sum + one.members.length, 0),
    names: () => [
      ...new Set(
        all()
          .filter((one) => one.members.length > 0)
          .map((one) => one.group),
      ),
    ],
    async closeAll() {
      for (const { members } of all()) {
        for (const member of [...members]) await member.consumer.close()
      }
    },
  }
}

function createSubscription(group: string, topic: Topic): Subscription {
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
    topic.places.length,
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
