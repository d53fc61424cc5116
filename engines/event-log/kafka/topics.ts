/** Creates, describes, grows, empties and deletes the topics of the cluster, in the terms of the port. */

import { AppError } from '#lib/errors.ts'
import type { PartitionRange, TopicSpec } from '../port.ts'
import type { AdminCalls } from './admin.ts'
import type { AdminClient, DescribedPartition } from './admin-client.ts'
import { timeSetting } from './broker-time.ts'
import { partitionNotFound, topicNotFound } from './faults.ts'
import type { LogRanges } from './log-ranges.ts'

interface KnownTopics {
  /** The cluster has it, or was just asked to create it. */
  add(topic: string): void
  forget(topic: string): void
  /** True for a topic that was known so recently that the answer of one broker does not prove that it is gone. */
  has(topic: string): boolean
}

/** Brokers learn of each other's changes within this time, also while they start or change their leader. */
const propagationMs = 5_000

function createKnownTopics(): KnownTopics {
  const seen = new Map<string, number>()
  return {
    add(topic) {
      seen.set(topic, performance.now())
    },
    forget: (topic) => void seen.delete(topic),
    has(topic) {
      const at = seen.get(topic)
      if (at === undefined) return false
      if (performance.now() - at < propagationMs) return true
      seen.delete(topic)
      return false
    },
  }
}

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

export function createTopics(
  { ask }: AdminCalls,
  { rangesNow }: Pick<LogRanges, 'rangesNow'>,
  replicationFactor?: number,
): Topics {
  const knownTopics = createKnownTopics()
  return {
    async createTopic(spec) {
      // A try that got no answer may have created it: the next one then finds it, and it is ours all the same.
      let tried = false
      const created = await ask(async (client) => {
        const replicas = replicationFactor ?? (await brokersUpTo(client, replicasMax))
        const { name, partitions } = spec
        const before = tried
        tried = true
        const settings = settingsOf(spec, replicas)
        return (await client.createTopic({ name, partitions, replicas, settings })) || before
      })
      await ask((client) => untilLed(client, spec.name))
      knownTopics.add(spec.name)
      return created
    },
    describeTopic: (name) =>
      ask(async (client) => {
        const partitions = (await knownPartitions(client, name, knownTopics)).length
        return partitions === 0 ? null : describe(client, name, partitions)
      }),
    listTopics: () =>
      ask(async (client) => (await client.listTopics()).filter((name) => !name.startsWith('__'))),
    deleteTopic: (name) =>
      ask(async (client) => {
        if ((await knownPartitions(client, name, knownTopics)).length === 0) return
        await client.deleteTopic(name)
        knownTopics.forget(name)
      }),
    addPartitions: (name, total) =>
      ask(async (client) => {
        const now = (await knownPartitions(client, name, knownTopics)).length
        if (now === 0) throw topicNotFound(name)
        if (now < total) await client.addPartitions(name, total)
      }),
    offsets: (topic, timeoutMs) => ask(() => knownRanges(rangesNow, topic, knownTopics), timeoutMs),
    deleteRecords: (topic, partition, before) =>
      ask(async (client) => {
        const ranges = await knownRanges(rangesNow, topic, knownTopics)
        const range = ranges.find((one) => one.partition === partition)
        if (!range) throw partitionNotFound(topic, partition)
        const offset = Math.min(before, range.end)
        if (offset <= range.start) return
        await client.deleteRecords(topic, partition, offset)
      }),
  }
}

async function brokersUpTo(client: AdminClient, max: number): Promise<number> {
  return Math.max(1, Math.min(max, (await client.describe()).brokers.length))
}

/**
 * None when the topic does not exist. Throws, so that the call is repeated, where a broker denies a topic that was known a
 * short while ago.
 */
async function knownPartitions(
  client: AdminClient,
  topic: string,
  knownTopics: KnownTopics,
): Promise<DescribedPartition[]> {
  const { partitions } = await client.describe(topic)
  if (partitions.length > 0) knownTopics.add(topic)
  else if (knownTopics.has(topic)) throw new Error(`a broker does not know ${topic} yet`)
  return partitions
}

/** A topic that was just made is known to the brokers, and has leaders, only a little later. */
async function untilLed(client: AdminClient, topic: string): Promise<void> {
  const { partitions } = await client.describe(topic)
  if (partitions.length === 0 || partitions.some(({ leader }) => leader < 0))
    throw new Error('no leaders yet')
}

/** Throws as `knownPartitions`, and AppError `not_found`. */
async function knownRanges(
  rangesNow: LogRanges['rangesNow'],
  topic: string,
  knownTopics: KnownTopics,
): Promise<PartitionRange[]> {
  try {
    const ranges = await rangesNow(topic)
    if (ranges.length === 0) throw new Error('a broker says nothing of its partitions')
    knownTopics.add(topic)
    return ranges
  } catch (error) {
    if (error instanceof AppError && knownTopics.has(topic))
      throw new Error('not known yet', { cause: error })
    throw error
  }
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

async function describe(client: AdminClient, name: string, partitions: number): Promise<TopicSpec> {
  const entries = await client.settings(name)
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
