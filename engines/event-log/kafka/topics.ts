/** Creates, describes, grows, empties and deletes the topics of the cluster, in the terms of the port. */

import kafkajs, { type Admin } from 'kafkajs'
import type { PartitionRange, TopicSpec } from '../port.ts'
import type { AdminCalls } from './admin.ts'
import { timeSetting } from './broker-time.ts'
import { faultType, partitionNotFound, topicNotFound } from './faults.ts'
import { createKnownTopics, type KnownTopics } from './known-topics.ts'

export interface Topics {
  createTopic(spec: TopicSpec): Promise<boolean>
  describeTopic(name: string): Promise<TopicSpec | null>
  listTopics(): Promise<string[]>
  deleteTopic(name: string): Promise<void>
  addPartitions(name: string, total: number): Promise<void>
  offsets(topic: string, timeoutMs?: number): Promise<PartitionRange[]>
  deleteRecords(topic: string, partition: number, before: number): Promise<void>
}

/** Kafka's limit is one of record batches: room for a batch's frame and the headers' lengths on top of the record. */
export const batchFrameBytes = 4_096
const replicasMax = 3
const segmentBytesMin = 1_048_576

export function createTopics({ ask }: AdminCalls, replicationFactor?: number): Topics {
  const knownTopics = createKnownTopics()
  const topics: Topics = {
    async createTopic(spec) {
      // A try that got no answer may have created it: the next one then finds it, and it is ours all the same.
      let tried = false
      const created = await ask(async (admin) => {
        const replicas = replicationFactor ?? (await brokersUpTo(admin, replicasMax))
        const topic = {
          topic: spec.name,
          numPartitions: spec.partitions,
          replicationFactor: replicas,
          configEntries: settingsOf(spec, replicas),
        }
        const before = tried
        tried = true
        return (
          (await admin.createTopics({ topics: [topic], waitForLeaders: false, timeout: 5_000 })) || before
        )
      })
      await ask((admin) => untilLed(admin, spec.name))
      knownTopics.add(spec.name)
      return created
    },
    describeTopic: (name) =>
      ask(async (admin) => {
        const partitions = (await knownPartitions(admin, name, knownTopics)).length
        return partitions === 0 ? null : describe(admin, name, partitions)
      }),
    listTopics: () =>
      ask(async (admin) => (await admin.listTopics()).filter((name) => !name.startsWith('__'))),
    deleteTopic: (name) =>
      ask(async (admin) => {
        if ((await knownPartitions(admin, name, knownTopics)).length === 0) return
        await admin
          .deleteTopics({ topics: [name], timeout: 5_000 })
          .catch(unless('UNKNOWN_TOPIC_OR_PARTITION'))
        knownTopics.forget(name)
      }),
    addPartitions: (name, total) =>
      ask(async (admin) => {
        const now = (await knownPartitions(admin, name, knownTopics)).length
        if (now === 0) throw topicNotFound(name)
        if (now >= total) return
        await admin.createPartitions({ topicPartitions: [{ topic: name, count: total }], timeout: 5_000 })
      }),
    offsets: (topic, timeoutMs) => ask((admin) => rangesOf(admin, topic, knownTopics), timeoutMs),
    deleteRecords: (topic, partition, before) =>
      ask(async (admin) => {
        const range = (await rangesOf(admin, topic, knownTopics)).find((one) => one.partition === partition)
        if (!range) throw partitionNotFound(topic, partition)
        const offset = Math.min(before, range.end)
        if (offset <= range.start) return
        await admin.deleteTopicRecords({ topic, partitions: [{ partition, offset: String(offset) }] })
      }),
  }
  return topics
}

function unless(type: string): (error: unknown) => void {
  return (error) => {
    if (faultType(error) !== type) throw error
  }
}

async function brokersUpTo(admin: Admin, max: number): Promise<number> {
  return Math.max(1, Math.min(max, (await admin.describeCluster()).brokers.length))
}

/** Partition numbers; none when the topic does not exist. Asks for all topics: asking for an unknown one is a fault. */
async function partitionsOf(admin: Admin, topic: string): Promise<number[]> {
  const { topics } = await admin.fetchTopicMetadata()
  const found = topics.find(({ name }) => name === topic)
  return (found?.partitions ?? []).map(({ partitionId }) => partitionId)
}

/**
 * As `partitionsOf`; throws, so that the call is repeated, where a broker denies a topic that was known a short while
 * ago.
 */
async function knownPartitions(admin: Admin, topic: string, knownTopics: KnownTopics): Promise<number[]> {
  const partitions = await partitionsOf(admin, topic)
  if (partitions.length > 0) knownTopics.add(topic)
  else if (knownTopics.has(topic)) throw new Error(`a broker does not know ${topic} yet`)
  return partitions
}

/** A topic that was just made is known to the brokers, and has leaders, only a little later. */
async function untilLed(admin: Admin, topic: string): Promise<void> {
  const { topics } = await admin.fetchTopicMetadata()
  const partitions = topics.find(({ name }) => name === topic)?.partitions ?? []
  if (partitions.length === 0 || partitions.some(({ leader }) => leader < 0))
    throw new Error('no leaders yet')
}

async function rangesOf(admin: Admin, topic: string, knownTopics: KnownTopics): Promise<PartitionRange[]> {
  const offsets = await admin.fetchTopicOffsets(topic).catch(async (error: unknown) => {
    // It may also be another topic that this client once asked for, and that is gone: then a fresh client will do.
    if (
      faultType(error) === 'UNKNOWN_TOPIC_OR_PARTITION' &&
      (await knownPartitions(admin, topic, knownTopics)).length === 0
    ) {
      throw topicNotFound(topic)
    }
    throw error
  })
  return offsets
    .map(({ partition, low, high }) => ({ partition, start: Number(low), end: Number(high) }))
    .sort((a, b) => a.partition - b.partition)
}

function settingsOf(spec: TopicSpec, replicas: number): { name: string; value: string }[] {
  const settings: Record<string, string | number> = {
    'cleanup.policy': spec.cleanup,
    'retention.ms': spec.cleanup === 'delete' && spec.retentionMs !== null ? spec.retentionMs : -1,
    'retention.bytes': -1,
    'delete.retention.ms': spec.tombstoneRetentionMs,
    'segment.bytes': Math.max(spec.segmentBytes, segmentBytesMin),
    'segment.ms': spec.segmentMs,
    'max.message.bytes': spec.recordBytesMax + batchFrameBytes,
    // Acknowledged means two copies wherever there are two brokers; with exactly two, writing stops while one is away.
    'min.insync.replicas': Math.min(2, replicas),
    [timeSetting.name]: timeSetting.value,
  }
  // Compact when a tenth is superseded (Kafka waits for half): a topic stays about as large as its live keys.
  if (spec.cleanup === 'compact') settings['min.cleanable.dirty.ratio'] = 0.1
  return Object.entries(settings).map(([name, value]) => ({ name, value: String(value) }))
}

async function describe(admin: Admin, name: string, partitions: number): Promise<TopicSpec> {
  const { resources } = await admin.describeConfigs({
    resources: [{ type: kafkajs.ConfigResourceTypes.TOPIC, name }],
    includeSynonyms: false,
  })
  const entries = new Map(resources[0]?.configEntries.map((entry) => [entry.configName, entry.configValue]))
  const number = (setting: string, otherwise: number) => Number(entries.get(setting) ?? otherwise)
  const cleanup = entries.get('cleanup.policy')?.includes('compact') ? 'compact' : 'delete'
  const retentionMs = number('retention.ms', 604_800_000)
  return {
    name,
    partitions,
    cleanup,
    retentionMs: cleanup === 'compact' || retentionMs < 0 ? null : retentionMs,
    tombstoneRetentionMs: number('delete.retention.ms', 86_400_000),
    segmentBytes: number('segment.bytes', 1_073_741_824),
    segmentMs: number('segment.ms', 604_800_000),
    recordBytesMax: number('max.message.bytes', 1_048_588) - batchFrameBytes,
  }
}
