/**
 * What the main thread keeps of the file, so that reading it asks no thread: topics and partitions with who reads them, and
 * the committed positions. Changes of topics come one after the other.
 */

import { deadlines } from '#lib/deadlines.ts'
import { AppError } from '#lib/errors.ts'
import type { WorkerClient } from '#lib/worker-rpc.ts'
import { bounded, partitionNotFound, topicNotFound } from '../faults.ts'
import type { CommittedPosition, EventLog, PartitionRange, StoredRecord, TopicSpec } from '../port.ts'
import type { ReaderHandlers } from './reader-thread.ts'
import type { PartitionSnapshot, PositionRow, TopicSnapshot } from './writer.ts'
import type { WriterHandlers } from './writer-thread.ts'

/** One partition. `start` and `end` bound the durable records; its readers are notified of every change. */
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

export type Topics = ReturnType<typeof createTopics>
export type Positions = ReturnType<typeof createPositions>

const callTimeoutMs = deadlines.engine.logAdminMs
const partitionsMax = 10_000
/** As in Kafka (org.apache.kafka.common.internals.Topic). */
const topicName = /^[A-Za-z0-9._-]{1,249}$/

export function createTopics() {
  const byName = new Map<string, Topic>()
  const byId = new Map<number, PartitionState>()
  function addPartition(topic: Topic, { id, partition, start, end }: PartitionSnapshot): void {
    const state = { id, topic, partition, start, end, gone: false, readers: new Set<PartitionListener>() }
    topic.partitions[partition] = state
    byId.set(id, state)
  }
  /** Throws AppError `not_found`. */
  function topicByName(name: string): Topic {
    const topic = byName.get(name)
    if (!topic) throw topicNotFound(name)
    return topic
  }
  return {
    byName,
    add({ spec, partitions }: TopicSnapshot): void {
      const topic: Topic = { spec, partitions: [], watchers: new Set() }
      for (const one of partitions) addPartition(topic, one)
      byName.set(spec.name, topic)
    },
    grow(topic: Topic, added: PartitionSnapshot[]): void {
      for (const one of added) addPartition(topic, one)
      topic.spec = { ...topic.spec, partitions: topic.partitions.length }
      for (const watcher of [...topic.watchers]) watcher()
    },
    remove(topic: Topic): void {
      byName.delete(topic.spec.name)
      for (const state of topic.partitions) {
        state.gone = true
        byId.delete(state.id)
        for (const reader of [...state.readers]) reader.changed()
      }
    },
    /** The partition of an id of the threads now begins there. */
    trimmed(id: number, start: number): void {
      const state = byId.get(id)
      if (!state) return
      state.start = Math.max(state.start, start)
      for (const reader of [...state.readers]) reader.changed()
    },
    topic: topicByName,
    /** Throws AppError `not_found`. */
    partition(name: string, partition: number): PartitionState {
      const state = topicByName(name).partitions[partition]
      if (!state) throw partitionNotFound(name, partition)
      return state
    },
  }
}

export const rangeOf = ({ partition, start, end }: PartitionState): PartitionRange => ({
  partition,
  start,
  end,
})

export function createPositions(rows: PositionRow[]) {
  let kept = new Map<string, PositionRow>()
  /** Takes over rows that have become durable. */
  function keep(fresh: PositionRow[]): void {
    for (const row of fresh) kept.set(`${row.group}\n${row.topic}\n${row.partition}`, row)
  }
  function list(group: string, topic: string): CommittedPosition[] {
    return [...kept.values()]
      .filter((row) => row.group === group && row.topic === topic)
      .map(({ partition, offset, metadata }) => ({ partition, offset, metadata }))
      .toSorted((a, b) => a.partition - b.partition)
  }
  keep(rows)
  return {
    keep,
    list,
    get: (group: string, topic: string, partition: number) =>
      list(group, topic).find((one) => one.partition === partition) ?? null,
    groups: () => [...new Set([...kept.values()].map(({ group }) => group))],
    /** Those of a group or of a topic. */
    forget(gone: { group?: string; topic?: string }): void {
      const stays = (row: PositionRow) => row.group !== gone.group && row.topic !== gone.topic
      kept = new Map([...kept].filter(([, row]) => stays(row)))
    },
  }
}

interface TopicCallsParts {
  topics: Topics
  positions: Positions
  writer: WorkerClient<WriterHandlers>
  reader: WorkerClient<ReaderHandlers>
}

/** What operators do with topics, and where groups are in them. */
export function createTopicCalls({ topics, positions, writer, reader }: TopicCallsParts) {
  const write = writer.call
  let last: Promise<unknown> = Promise.resolve()
  /** Each change sees what the one before it has made. */
  function inTurn<T>(change: () => Promise<T>): Promise<T> {
    const mine = last.then(change)
    last = mine.catch(() => {})
    return mine
  }
  return {
    createTopic: (spec) =>
      inTurn(async () => {
        checkSpec(spec.name, spec.partitions)
        const made = await bounded(write.createTopic(spec), callTimeoutMs)
        if (made) topics.add(made)
        return made !== null
      }),
    async describeTopic(name) {
      const topic = topics.byName.get(name)
      return topic ? { ...topic.spec } : null
    },
    listTopics: async () => [...topics.byName.keys()].toSorted(),
    deleteTopic: (name) =>
      inTurn(async () => {
        const topic = topics.topic(name)
        await bounded(write.deleteTopic(name), callTimeoutMs)
        topics.remove(topic)
        positions.forget({ topic: name })
      }),
    addPartitions: (name, total) =>
      inTurn(async () => {
        checkSpec(name, total)
        const topic = topics.topic(name)
        const from = topic.partitions.length
        if (total <= from) return
        topics.grow(topic, await bounded(write.addPartitions(topic.spec, from, total), callTimeoutMs))
      }),
    offsets: async (name) => topics.topic(name).partitions.map(rangeOf),
    groupPositions: async (asked) =>
      asked.map(({ group, topic }) => ({
        group,
        topic,
        committed: positions.list(group, topic),
        ranges: topics.topic(topic).partitions.map(rangeOf),
      })),
    partitionFacts: async (name) => {
      const weighed = topics.topic(name).partitions.map(async ({ id, partition, end }) => {
        const bytes = await bounded(reader.call.weigh(id, end), callTimeoutMs)
        return { partition, leader: null, replicas: 1, inSync: 1, bytes }
      })
      return Promise.all(weighed)
    },
    deleteRecords: (name, partition, before) =>
      inTurn(async () => {
        const state = topics.partition(name, partition)
        if (!Number.isSafeInteger(before) || before < 0 || before > state.end) {
          throw new AppError('bad_request', `Records can be deleted below an offset up to ${state.end}.`)
        }
        if (before <= state.start) return
        topics.trimmed(state.id, await bounded(write.trim(state.id, before), callTimeoutMs))
      }),
  } satisfies Partial<EventLog>
}

function checkSpec(name: string, partitions: number): void {
  if (!topicName.test(name)) {
    throw new AppError(
      'bad_request',
      'A topic name has 1 to 249 letters, digits, dots, hyphens and underscores.',
    )
  }
  if (!Number.isInteger(partitions) || partitions < 1 || partitions > partitionsMax) {
    throw new AppError('bad_request', `A topic has 1 to ${partitionsMax} partitions.`)
  }
}
