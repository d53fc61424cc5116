/** Keeps the consumer groups of the one process in memory: their members and what each of them owns. */

import type { ConsumeOptions, GroupConsumer } from '../port.ts'
import { createMember, type MemberParts } from './member.ts'
import { createSubscription, type Subscription } from './subscription.ts'
import type { Topic } from './topics.ts'

export interface Groups {
  join(topic: Topic, options: ConsumeOptions): GroupConsumer
  /** Members of a group, of one topic or of all. */
  members(group: string, topic?: string): number
  /** The partitions of a topic that its members own. */
  owned(group: string, topic: string): number[]
  names(): string[]
  closeAll(): Promise<void>
}

export function createGroups(parts: MemberParts): Groups {
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
    owned: (group, topic) =>
      [...(subscriptions.get(group)?.values() ?? [])]
        .filter((one) => one.topic.spec.name === topic)
        .flatMap(({ members }) => members.flatMap(({ consumer }) => consumer.assignment()))
        .toSorted((a, b) => a - b),
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
