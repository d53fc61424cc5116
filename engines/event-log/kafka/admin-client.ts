/** What an administrator asks of a cluster: topics, their settings and partitions, and groups. Each call is a single try. */

import {
  ConfigResourceTypes,
  createPartitionsV3,
  createTopicsV7,
  deleteGroupsV2,
  deleteRecordsV2,
  deleteTopicsV6,
  describeConfigsV4,
  describeGroupsV5,
  incrementalAlterConfigsV1,
  listGroupsV4,
  type metadataV12,
} from '@platformatic/kafka'
import { deadlines } from '#lib/deadlines.ts'
import type { Cluster } from './cluster.ts'
import { refusalOf } from './faults.ts'

export interface AdminClient {
  /** What one broker knows of the cluster, and of a topic. Another broker is asked each time. */
  describe(topic?: string): Promise<ClusterDescription>
  listTopics(): Promise<string[]>
  /** False when there is one of this name. Brokers may know of it a little later. */
  createTopic(topic: NewTopic): Promise<boolean>
  /** Also resolves when there is none. */
  deleteTopic(topic: string): Promise<void>
  addPartitions(topic: string, total: number): Promise<void>
  /** All settings of a topic by name, or some; null where a broker hides the value. */
  settings(topic: string, names?: string[]): Promise<Map<string, string | null>>
  changeSetting(topic: string, setting: Setting): Promise<void>
  deleteRecords(topic: string, partition: number, before: number): Promise<void>
  listGroups(): Promise<string[]>
  /** None for an unknown group. */
  members(group: string): Promise<GroupMember[]>
  /** Rejects with GROUP_ID_NOT_FOUND or NON_EMPTY_GROUP (`refusalOf`). */
  deleteGroup(group: string): Promise<void>
}

interface ClusterDescription {
  brokers: { node: number; address: string }[]
  /** In order; none when the topic does not exist. */
  partitions: DescribedPartition[]
}

export interface DescribedPartition {
  partition: number
  /** A broker's node id; -1 while nobody leads it. */
  leader: number
  replicas: number
  inSync: number
}

export interface NewTopic {
  name: string
  partitions: number
  replicas: number
  settings: Setting[]
}

export interface Setting {
  name: string
  value: string
}

interface GroupMember {
  clientId: string
  /** As the leader of the group wrote it; empty between two assignments. */
  assignment: Buffer
}

/** A request has this long, and the broker the first of it. */
const requestTimeoutMs = deadlines.engine.logRequestMs
const brokerTimeoutMs = deadlines.engine.logBrokerWriteMs
const ofTopic = ConfigResourceTypes.TOPIC
/** As the protocol numbers them. */
const set = 0 as const

export function createAdminClient(cluster: Cluster): AdminClient {
  const connections = cluster.connections(requestTimeoutMs)
  const toCoordinator = async (group: string) => connections.to(await cluster.coordinator('group', group))
  return {
    async describe(topic) {
      const { brokers, topics } = await cluster.metadata(topic === undefined ? [] : [topic])
      return {
        brokers: brokers.map(({ nodeId, host, port }) => ({ node: nodeId, address: `${host}:${port}` })),
        partitions: partitionsIn(topics[0]),
      }
    },
    async listTopics() {
      const { topics } = await cluster.metadata(null)
      return topics.flatMap(({ name }) => name ?? [])
    },
    async createTopic({ name, partitions, replicas, settings }) {
      const topic = {
        name,
        numPartitions: partitions,
        replicationFactor: replicas,
        assignments: [],
        configs: settings,
      }
      const create = createTopicsV7.api.async(await connections.toAny(), [topic], brokerTimeoutMs, false)
      return create.then(() => true, unless('TOPIC_ALREADY_EXISTS', false))
    },
    async deleteTopic(name) {
      const remove = deleteTopicsV6.api.async(await connections.toAny(), [{ name }], brokerTimeoutMs)
      await remove.catch(unless('UNKNOWN_TOPIC_OR_PARTITION', null))
    },
    async addPartitions(name, count) {
      const more = [{ name, count, assignments: null }]
      await createPartitionsV3.api.async(await connections.toAny(), more, brokerTimeoutMs, false)
    },
    async settings(topic, names) {
      const asked = { resourceType: ofTopic, resourceName: topic, configurationKeys: names ?? null }
      const { results } = await describeConfigsV4.api.async(await connections.toAny(), [asked], false, false)
      return new Map(results[0]?.configs.map(({ name, value }) => [name, value ?? null]))
    },
    async changeSetting(topic, setting) {
      const configs = [{ ...setting, configOperation: set }]
      const change = { resourceType: ofTopic, resourceName: topic, configs }
      await incrementalAlterConfigsV1.api.async(await connections.toAny(), [change], false)
    },
    async deleteRecords(topic, partition, before) {
      const leader = (await cluster.leaders(topic))?.find((one) => one.partition === partition)?.leader ?? -1
      if (leader < 0) throw new Error('no leader yet')
      const partitions = [{ partitionIndex: partition, offset: BigInt(before) }]
      const to = await connections.to(leader)
      await deleteRecordsV2.api.async(to, [{ name: topic, partitions }], brokerTimeoutMs)
    },
    async listGroups() {
      const { brokers } = await cluster.metadata([])
      const answers = brokers.map(async ({ nodeId }) =>
        listGroupsV4.api.async(await connections.to(nodeId), [], []),
      )
      return (await Promise.all(answers)).flatMap(({ groups }) => groups.map(({ groupId }) => groupId))
    },
    async members(group) {
      const { groups } = await describeGroupsV5.api.async(await toCoordinator(group), [group], false)
      const members = groups[0]?.members ?? []
      return members.map(({ clientId, memberAssignment }) => ({ clientId, assignment: memberAssignment }))
    },
    async deleteGroup(group) {
      await deleteGroupsV2.api.async(await toCoordinator(group), [group])
    },
  }
}

/** What to make of a rejection: `otherwise` for this refusal, the error itself for anything else. */
function unless<T>(refusal: string, otherwise: T): (error: unknown) => T {
  return (error) => {
    if (refusalOf(error) !== refusal) throw error
    return otherwise
  }
}

function partitionsIn(topic: metadataV12.MetadataResponseTopic | undefined): DescribedPartition[] {
  return (topic?.partitions ?? [])
    .map(({ partitionIndex, leaderId, replicaNodes, isrNodes }) => ({
      partition: partitionIndex,
      leader: leaderId,
      replicas: replicaNodes.length,
      inSync: isrNodes.length,
    }))
    .sort((a, b) => a.partition - b.partition)
}
