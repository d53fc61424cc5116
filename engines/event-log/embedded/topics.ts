/** What the main thread knows of topics and partitions: their limits, what they hold, and who reads them. */

import { AppError } from '#lib/errors.ts'
import type { PartitionRange, StoredRecord, TopicSpec } from '../port.ts'
import type { PartitionSnapshot, TopicSnapshot } from './writer.ts'

/** One partition. `start` and `end` are what is durable; its readers are notified of every change. */
export interface PartitionState {
  readonly id: number
  readonly topic: Topic
  readonly partition: number
  start: number
  end: number
  gone: boolean
  readonly readers: Set<PartitionListener>
}

export interface PartitionListener {
  /** `count` records are durable from `first` on; `take` gives them where that saves reading the file. */
  appended(first: number, count: number, take: (() => StoredRecord[]) | null): void
  /** The start moved or the partition is gone: look again. */
  changed(): void
}

export interface Topic {
  spec: TopicSpec
  partitions: PartitionState[]
  /** Called when partitions were added. */
  readonly watchers: Set<() => void>
}

export interface Topics {
  readonly byName: Map<string, Topic>
  add(snapshot: TopicSnapshot): Topic
  grow(topic: Topic, added: PartitionSnapshot[]): void
  remove(topic: Topic): void
  /** By the id that the threads use. */
  byId(id: number): PartitionState | undefined
  /** Throws AppError `not_found`. */
  topic(name: string): Topic
  /** Throws AppError `not_found`. */
  partition(topic: string, partition: number): PartitionState
}

export function createTopics(): Topics {
  const byName = new Map<string, Topic>()
  const byId = new Map<number, PartitionState>()
  function addPartition(topic: Topic, { id, partition, start, end }: PartitionSnapshot): void {
    const state = { id, topic, partition, start, end, gone: false, readers: new Set<PartitionListener>() }
    topic.partitions[partition] = state
    byId.set(id, state)
  }
  function topicByName(name: string): Topic {
    const topic = byName.get(name)
    if (!topic) throw new AppError('not_found', `The topic ${name} does not exist.`)
    return topic
  }
  return {
    byName,
    add({ spec, partitions }) {
      const topic: Topic = { spec, partitions: [], watchers: new Set() }
      for (const one of partitions) addPartition(topic, one)
      byName.set(spec.name, topic)
      return topic
    },
    grow(topic, added) {
      for (const one of added) addPartition(topic, one)
      topic.spec = { ...topic.spec, partitions: topic.partitions.length }
      for (const watcher of [...topic.watchers]) watcher()
    },
    remove(topic) {
      byName.delete(topic.spec.name)
      for (const state of topic.partitions) {
        state.gone = true
        byId.delete(state.id)
        for (const reader of [...state.readers]) reader.changed()
      }
    },
    byId: (id) => byId.get(id),
    topic: topicByName,
    partition(name, partition) {
      const state = topicByName(name).partitions[partition]
      if (!state) throw new AppError('not_found', `The topic ${name} has no partition ${partition}.`)
      return state
    },
  }
}

export const rangeOf = ({ partition, start, end }: PartitionState): PartitionRange => ({
  partition,
  start,
  end,
})
