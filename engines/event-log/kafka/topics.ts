/** Creates, describes, grows, empties and deletes the topics of the cluster, in the terms of the port. */

import {
  ConfigResourceTypes,
  createPartitionsV3,
  createTopicsV7,
  deleteRecordsV2,
  deleteTopicsV6,
  describeLogDirsV4,
  incrementalAlterConfigsV1,
} from '@platformatic/kafka'
import type { Logger } from 'pino'
import { deadlines } from '#lib/deadlines.ts'
import { AppError, describeError } from '#lib/errors.ts'
import { partitionNotFound, topicNotFound } from '../faults.ts'
import type { PartitionFacts, TopicSpec } from '../port.ts'
import { type RepeatedCalls, unless } from './calls.ts'
import type { Cluster, Connections, KnownPartition } from './cluster.ts'
import type { LogRanges } from './log-ranges.ts'

/** What appending needs to know of a topic. */
export interface TopicFacts {
  partitions: number
  recordBytesMax: number
  /** Bytes of one record batch, frame included. */
  batchBytesMax: number
}

export type TopicFactsCache = ReturnType<typeof createTopicFacts>

interface TopicsParts {
  ask: RepeatedCalls['ask']
  cluster: Cluster
  ranges: Pick<LogRanges, 'rangesNow'>
  facts: TopicFactsCache
}

/** Kafka's limit is one of record batches: room for a batch's frame and the headers' lengths on top of the record. */
const batchFrameBytes = 4_096
const replicasMax = 3
const segmentBytesMin = 1_048_576
/** A request has this long, and the broker the first of it. */
const requestTimeoutMs = deadlines.engine.logRequestMs
const brokerTimeoutMs = deadlines.engine.logBrokerWriteMs
/**
 * Records carry the time of the broker that appended them: a writer whose clock is wrong cannot make them expire, nor be
 * refused for it.
 */
const timeSetting = { name: 'message.timestamp.type', value: 'LogAppendTime' }
/** As the protocol numbers them. */
const set = 0 as const

type Settings = Map<string, string | null>

/** Also sees to it that records carry the broker's time in a topic that the driver writes to. */
export function createTopicFacts(ask: RepeatedCalls['ask'], cluster: Cluster, log: Logger) {
  /** Topics whose times were looked at, when the driver first wrote to them. */
  const timed = new Map<string, Promise<void>>()

  async function readFacts(name: string, how: 'get' | 'now'): Promise<TopicFacts> {
    const [partitions, settings] = await Promise.all([cluster.topics[how](name), cluster.settings[how](name)])
    if (!partitions?.length) throw topicNotFound(name)
    if (!settings) throw new Error(`a broker does not know the settings of ${name}`)
    if (!timed.has(name)) timed.set(name, useBrokerTime(name, settings))
    await timed.get(name)
    const recordBytesMax = recordBytesOf(settings)
    return { partitions: partitions.length, recordBytesMax, batchBytesMax: recordBytesMax + batchFrameBytes }
  }
  /** Topics that were created before it was so are altered. Where that is not allowed writing goes on. */
  async function useBrokerTime(topic: string, settings: Settings): Promise<void> {
    if (settings.get(timeSetting.name) === timeSetting.value) return
    try {
      const configs = [{ ...timeSetting, configOperation: set }]
      const change = { resourceType: ConfigResourceTypes.TOPIC, resourceName: topic, configs }
      await incrementalAlterConfigsV1.api.async(await cluster.asking.toAny(), [change], false)
      log.info({ topic }, 'topics.broker-time')
    } catch (error) {
      log.warn({ topic, error: describeError(error) }, 'topics.broker-time-refused')
    }
  }
  const factsNow = (name: string) => ask(() => readFacts(name, 'now'))
  return {
    /** Throws AppError `not_found` for an unknown topic, `log_unavailable` when no broker answers. */
    get: (name: string): Promise<TopicFacts> =>
      readFacts(name, 'get').catch((error: unknown) => {
        if (error instanceof AppError) throw error
        return factsNow(name)
      }),
    /** Asks again: the topic may have grown, or be gone. */
    refresh: factsNow,
    forget(name: string): void {
      cluster.topics.forget(name)
      cluster.settings.forget(name)
      timed.delete(name)
    },
  }
}

export function createTopics({ ask, cluster, ranges, facts }: TopicsParts) {
  const connections = cluster.connections(requestTimeoutMs)

  async function partitionsNow(name: string): Promise<KnownPartition[]> {
    return (await cluster.topics.now(name)) ?? []
  }
  /** A topic that was just made is known to the brokers, and has leaders, only a little later. */
  async function untilLed(name: string): Promise<void> {
    const partitions = await partitionsNow(name)
    const isLed = partitions.length > 0 && partitions.every(({ leader }) => leader >= 0)
    if (!isLed) throw new Error('no leaders yet')
  }
  async function settingsNow(name: string): Promise<Settings> {
    const settings = await cluster.settings.now(name)
    if (!settings) throw new Error(`a broker does not know the settings of ${name}`)
    return settings
  }
  async function rangesNow(name: string) {
    const found = await ranges.rangesNow(name)
    if (found.length === 0) throw new Error('a broker says nothing of its partitions')
    return found
  }
  return {
    async createTopic(spec: TopicSpec): Promise<boolean> {
      // A try that got no answer may have created it: the next one then finds it, and it is ours all the same.
      let tried = false
      const created = await ask(async () => {
        const { brokers } = await cluster.metadata([])
        const before = tried
        tried = true
        const wanted = [newTopic(spec, brokers.length)]
        const create = createTopicsV7.api.async(await connections.toAny(), wanted, brokerTimeoutMs, false)
        return (await create.then(() => true, unless('TOPIC_ALREADY_EXISTS', false))) || before
      })
      await ask(() => untilLed(spec.name))
      return created
    },
    describeTopic: (name: string): Promise<TopicSpec | null> =>
      ask(async () => {
        const partitions = (await partitionsNow(name)).length
        return partitions === 0 ? null : describe(name, partitions, await settingsNow(name))
      }),
    listTopics: (): Promise<string[]> =>
      ask(async () => {
        const { topics } = await cluster.metadata(null)
        return topics.flatMap(({ name }) => name ?? []).filter((name) => !name.startsWith('__'))
      }),
    deleteTopic: (name: string): Promise<void> =>
      ask(async () => {
        if ((await partitionsNow(name)).length === 0) return
        const remove = deleteTopicsV6.api.async(await connections.toAny(), [{ name }], brokerTimeoutMs)
        await remove.catch(unless('UNKNOWN_TOPIC_OR_PARTITION', null))
        cluster.topics.remove(name)
        cluster.settings.remove(name)
        facts.forget(name)
      }),
    addPartitions: (name: string, total: number): Promise<void> =>
      ask(async () => {
        const now = (await partitionsNow(name)).length
        if (now === 0) throw topicNotFound(name)
        if (now >= total) return
        const more = [{ name, count: total, assignments: null }]
        await createPartitionsV3.api.async(await connections.toAny(), more, brokerTimeoutMs, false)
        facts.forget(name)
      }),
    offsets: (topic: string, timeoutMs?: number) => ask(() => rangesNow(topic), timeoutMs),
    deleteRecords: (topic: string, partition: number, before: number): Promise<void> =>
      ask(async () => {
        const range = (await rangesNow(topic)).find((one) => one.partition === partition)
        if (!range) throw partitionNotFound(topic, partition)
        const offset = Math.min(before, range.end)
        if (offset <= range.start) return
        const leader = leaderOf(await cluster.topics.get(topic), partition)
        const partitions = [{ partitionIndex: partition, offset: BigInt(offset) }]
        const to = await connections.to(leader)
        await deleteRecordsV2.api.async(to, [{ name: topic, partitions }], brokerTimeoutMs)
      }),
    async partitionFacts(topic: string): Promise<PartitionFacts[]> {
      const partitions = await ask(() => partitionsNow(topic))
      if (partitions.length === 0) throw topicNotFound(topic)
      const sizes = await sizesOf(connections, topic, partitions)
      return partitions.map(({ partition, leader, replicas, inSync }) => ({
        partition,
        leader: cluster.addressOf(leader),
        replicas,
        inSync,
        bytes: sizes.get(partition) ?? null,
      }))
    },
  }
}

function leaderOf(partitions: KnownPartition[] | null, partition: number): number {
  const leader = partitions?.find((one) => one.partition === partition)?.leader ?? -1
  if (leader < 0) throw new Error('no leader yet')
  return leader
}

/** Each leader knows the sizes of its own; of one that does not answer they are missing. */
async function sizesOf(
  connections: Connections,
  topic: string,
  partitions: readonly KnownPartition[],
): Promise<Map<number, number>> {
  const sizes = new Map<number, number>()
  const led = partitions.filter(({ leader }) => leader >= 0)
  const asked = [...Map.groupBy(led, ({ leader }) => leader)].map(async ([node, own]) => {
    const wanted = [{ name: topic, partitions: own.map(({ partition }) => partition) }]
    const { results } = await describeLogDirsV4.api.async(await connections.to(node), wanted)
    for (const { topics } of results) {
      for (const { partitionIndex, partitionSize, isFutureKey } of topics.flatMap((one) => one.partitions)) {
        if (!isFutureKey) sizes.set(partitionIndex, Number(partitionSize))
      }
    }
  })
  await Promise.allSettled(asked)
  return sizes
}

/** A new topic, in the form of the protocol. */
export function newTopic(spec: TopicSpec, brokers: number) {
  const replicas = Math.max(1, Math.min(replicasMax, brokers))
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
  return {
    name: spec.name,
    numPartitions: spec.partitions,
    replicationFactor: replicas,
    assignments: [],
    configs: Object.entries(settings).map(([name, value]) => ({ name, value: String(value) })),
  }
}

function recordBytesOf(settings: Settings): number {
  return Number(settings.get('max.message.bytes') ?? 1_048_588) - batchFrameBytes
}

function describe(name: string, partitions: number, settings: Settings): TopicSpec {
  const number = (setting: string, otherwise: number) => Number(settings.get(setting) ?? otherwise)
  const cleanup = settings.get('cleanup.policy')?.includes('compact') ? 'compact' : 'delete'
  const retentionMs = number('retention.ms', 604_800_000)
  return {
    name,
    partitions,
    cleanup,
    retentionMs: cleanup === 'compact' || retentionMs < 0 ? null : retentionMs,
    tombstoneRetentionMs: number('delete.retention.ms', 86_400_000),
    segmentBytes: number('segment.bytes', 1_073_741_824),
    segmentMs: number('segment.ms', 604_800_000),
    recordBytesMax: recordBytesOf(settings),
  }
}
