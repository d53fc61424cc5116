/**
 * Finds the brokers of a cluster: who leads a partition, who coordinates a group or a transactional id, and a connection
 * to each.
 *
 * Made of the protocol calls and connections that @platformatic/kafka exports. A request without an answer in its time
 * closes its connection, so that a silent broker or network is noticed and the next request opens another one.
 */

import { type Connection, ConnectionPool, findCoordinatorV6, metadataV12 } from '@platformatic/kafka'
import { deadlines } from '#lib/deadlines.ts'
import type { Closeable } from '#lib/resource.ts'
import type { KafkaOptions } from './client.ts'

export interface Address {
  host: string
  port: number
}

export interface PartitionLeader {
  partition: number
  /** A broker's node id; -1 while there is none. */
  leader: number
}

/** Connections for one purpose: one for each broker, and one limit for an answer. */
export interface Connections extends Closeable {
  /** Opens it when there is none. Throws when the broker is unknown or does not accept within 1 s. */
  to(node: number): Promise<Connection>
  /** To any broker, another one at each call. */
  toAny(): Promise<Connection>
}

export interface Cluster extends Closeable {
  /** `requestTimeoutMs`: a request without an answer for this long fails and closes its connection. */
  connections(requestTimeoutMs: number): Connections
  /** By partition number, from a cache of at most 5 s; null when the cluster has no such topic. */
  leaders(topic: string): Promise<PartitionLeader[] | null>
  /** A leader has moved, or a broker is gone: the next `leaders` asks. */
  forgetLeaders(topic: string): void
  /** The node id of the coordinator; asked at each call. Throws while there is none. */
  coordinator(kind: 'group' | 'transaction', key: string): Promise<number>
}

type MetadataResponse = metadataV12.MetadataResponse

const connectTimeoutMs = deadlines.engine.logConnectMs
const metadataTimeoutMs = 2_000
const metadataAgeMs = 5_000
/** Requests on one connection that wait for their answers. */
const requestsInFlightMax = 64
const coordinatorKinds = { group: 0, transaction: 1 }
const unknownTopic = 3

export function createCluster(options: KafkaOptions): Cluster {
  const brokers = new Map<number, Address>()
  const topics = new Map<string, { askedAt: number; leaders: Promise<PartitionLeader[] | null> }>()
  const pools = new Set<ConnectionPool>()
  const bootstrap = options.brokers.map(addressOf)
  const asking = connections(metadataTimeoutMs)
  let next = Math.floor(Math.random() * bootstrap.length)

  function connections(requestTimeoutMs: number): Connections {
    const pool = new ConnectionPool(options.clientId, {
      connectTimeout: connectTimeoutMs,
      requestTimeout: requestTimeoutMs,
      maxInflights: requestsInFlightMax,
      ...securityOf(options),
    })
    pools.add(pool)
    return {
      async to(node) {
        const address = brokers.get(node) ?? (await learnBroker(node))
        return await pool.get(address)
      },
      toAny: () => pool.get(anyBroker()),
      async close() {
        pools.delete(pool)
        await pool.close()
      },
    }
  }
  /** Those that were learned and those of the settings take turns: an address that went silent costs one call. */
  function anyBroker(): Address {
    const all = [...brokers.values(), ...bootstrap]
    return all[next++ % all.length] as Address
  }
  async function learnBroker(node: number): Promise<Address> {
    learn(await metadataV12.api.async(await asking.toAny(), [], false, false))
    const address = brokers.get(node)
    if (!address) throw new Error(`the cluster does not name broker ${node}`)
    return address
  }
  function learn(metadata: MetadataResponse): void {
    if (metadata.brokers.length === 0) return
    brokers.clear()
    for (const { nodeId, host, port } of metadata.brokers) brokers.set(nodeId, { host, port })
  }
  async function askLeaders(topic: string): Promise<PartitionLeader[] | null> {
    const metadata = await metadataV12.api
      .async(await asking.toAny(), [topic], false, false)
      .catch(responseOf<MetadataResponse>)
    learn(metadata)
    const found = metadata.topics.find(({ name }) => name === topic)
    if (!found || found.errorCode === unknownTopic) return null
    return found.partitions
      .map(({ partitionIndex, leaderId }) => ({ partition: partitionIndex, leader: leaderId }))
      .sort((a, b) => a.partition - b.partition)
  }
  return {
    connections,
    leaders(topic) {
      const known = topics.get(topic)
      if (known && performance.now() - known.askedAt < metadataAgeMs) return known.leaders
      const leaders = askLeaders(topic)
      topics.set(topic, { askedAt: performance.now(), leaders })
      leaders.catch(() => {
        if (topics.get(topic)?.leaders === leaders) topics.delete(topic)
      })
      return leaders
    },
    forgetLeaders: (topic) => void topics.delete(topic),
    async coordinator(kind, key) {
      const answer = await findCoordinatorV6.api.async(await asking.toAny(), coordinatorKinds[kind], [key])
      const found = answer.coordinators[0]
      if (!found) throw new Error(`no coordinator of the ${kind} ${key}`)
      brokers.set(found.nodeId, { host: found.host, port: found.port })
      return found.nodeId
    },
    async close() {
      await Promise.all([...pools].map((pool) => pool.close()))
      pools.clear()
    },
  }
}

/** The library throws an answer that holds an error of any part; the answer itself is in the error. */
export function responseOf<T>(error: unknown): T {
  const { response } = error as { response?: T }
  if (response === undefined) throw error
  return response
}

function addressOf(broker: string): Address {
  const colon = broker.lastIndexOf(':')
  return { host: broker.slice(0, colon), port: Number(broker.slice(colon + 1)) }
}

function securityOf({ ssl, sasl }: KafkaOptions) {
  const mechanisms = { plain: 'PLAIN', 'scram-sha-256': 'SCRAM-SHA-256', 'scram-sha-512': 'SCRAM-SHA-512' }
  return {
    ...(ssl ? { tls: {}, tlsServerName: true } : {}),
    ...(sasl
      ? {
          sasl: {
            mechanism: mechanisms[sasl.mechanism] as 'PLAIN' | 'SCRAM-SHA-256' | 'SCRAM-SHA-512',
            username: sasl.username,
            password: sasl.password,
          },
        }
      : {}),
  }
}
