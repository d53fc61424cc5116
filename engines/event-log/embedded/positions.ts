/** Keeps the committed positions in memory as they are in the file, so that reading them asks no thread. */

import type { CommittedPosition } from '../port.ts'
import type { PositionRow } from './writer.ts'

export interface Positions {
  /** Takes over rows that have become durable. */
  keep(rows: PositionRow[]): void
  get(group: string, topic: string, partition: number): CommittedPosition | null
  list(group: string, topic: string): CommittedPosition[]
  groups(): string[]
  forgetGroup(group: string): void
  forgetTopic(topic: string): void
}

export function createPositions(rows: PositionRow[]): Positions {
  const groups = new Map<string, Map<string, Map<number, CommittedPosition>>>()
  function keep(fresh: PositionRow[]): void {
    for (const { group, topic, partition, offset, metadata } of fresh) {
      const topics = groups.get(group) ?? new Map<string, Map<number, CommittedPosition>>()
      groups.set(group, topics)
      const partitions = topics.get(topic) ?? new Map<number, CommittedPosition>()
      topics.set(topic, partitions)
      partitions.set(partition, { partition, offset, metadata })
    }
  }
  keep(rows)
  return {
    keep,
    get: (group, topic, partition) => groups.get(group)?.get(topic)?.get(partition) ?? null,
    list: (group, topic) =>
      [...(groups.get(group)?.get(topic)?.values() ?? [])].toSorted((a, b) => a.partition - b.partition),
    groups: () => [...groups.keys()],
    forgetGroup: (group) => void groups.delete(group),
    forgetTopic(topic) {
      for (const [group, topics] of groups) {
        topics.delete(topic)
        if (topics.size === 0) groups.delete(group)
      }
    },
  }
}
