/**
 * Servers for a whole platform on distributed engines, for one test file: topics, groups and collections have fixed
 * names, so no other file uses its Kafka and Qdrant at the same time; the registry is shared, and every database is a
 * fresh one.
 */

import { QdrantClient } from '@qdrant/js-client-rest'
import { type Admin, Kafka, logLevel } from 'kafkajs'
import { type KafkaCluster, openKafkaCluster } from '../../scripts/servers/kafka.ts'
import { type OwnQdrant, openOwnQdrant } from './distributed-qdrant.ts'
import { eventually } from './eventually.ts'
import { newSecretKeyVariable } from './secret-key.ts'
import { databaseUrl, giveStackBack, registryUrl, takeStack } from './servers.ts'

export interface Stack {
  brokers: string[]
  /** Null where no Qdrant can be had: then the vector engine is embedded, and all services run in one process. */
  qdrant: { url: string } | null
  /** Names the engines, with an unused database. */
  newEnvironment(): Promise<Record<string, string>>
  /** Removes every topic, group and collection, for the next platform. Nothing may run on them. */
  clear(): Promise<void>
  close(): Promise<void>
}

/** The servers are the file's own: it may kill them. */
export interface DistributedServers extends Stack {
  kafka: KafkaCluster
  qdrant: OwnQdrant | null
}

/** Those of this worker, empty. Open it in `beforeAll`, close it in `afterAll`. */
export async function openStack(): Promise<Stack> {
  const [{ brokers, qdrant }, registry] = await Promise.all([takeStack(), registryUrl()])
  const stack = stackOf(brokers, qdrant === null ? null : { url: qdrant }, registry)
  await stack.clear()
  return { ...stack, close: giveStackBack }
}

/** Open it in `beforeAll`, close it in `afterAll`. */
export async function openDistributedServers(nodes: 1 | 3 = 1): Promise<DistributedServers> {
  const [kafka, qdrant, registry] = await Promise.all([
    openKafkaCluster(nodes),
    openOwnQdrant(),
    registryUrl(),
  ])
  return {
    ...stackOf(kafka.brokers, qdrant, registry),
    kafka,
    qdrant,
    async close() {
      await Promise.all([kafka.close(), qdrant?.kill9()])
    },
  }
}

function stackOf(brokers: string[], qdrant: { url: string } | null, registry: string): Omit<Stack, 'close'> {
  return {
    brokers,
    qdrant,
    async newEnvironment() {
      return {
        KAFKA_BROKERS: brokers.join(','),
        SCHEMA_REGISTRY_URL: registry,
        DATABASE_URL: await databaseUrl(),
        ...newSecretKeyVariable(),
        ...(qdrant ? { QDRANT_URL: qdrant.url } : {}),
      }
    },
    async clear() {
      await Promise.all([clearKafka(brokers), qdrant ? clearQdrant(qdrant.url) : undefined])
    },
  }
}

async function clearKafka(brokers: string[]): Promise<void> {
  const admin = new Kafka({ brokers, clientId: 'clear', logLevel: logLevel.NOTHING }).admin()
  await admin.connect()
  try {
    // A member that has just left, or was killed, keeps its group from being deleted for a while.
    await eventually('no group is left', async () => !(await deleteGroups(admin)), 60_000)
    const topics = (await admin.listTopics()).filter((topic) => !topic.startsWith('__'))
    if (topics.length > 0) await admin.deleteTopics({ topics })
  } finally {
    await admin.disconnect()
  }
}

/** True when there were some. */
async function deleteGroups(admin: Admin): Promise<boolean> {
  const { groups } = await admin.listGroups()
  if (groups.length > 0) await admin.deleteGroups(groups.map((group) => group.groupId))
  return groups.length > 0
}

async function clearQdrant(url: string): Promise<void> {
  const client = new QdrantClient({ url, checkCompatibility: false })
  const { collections } = await client.getCollections()
  for (const { name } of collections) await client.deleteCollection(name)
}
