/**
 * Finds the brokers of a cluster: who leads a partition, who coordinates a group or a transactional id, and a connection
 * to each.
 *
 * Made of the protocol calls and connections that @platformatic/kafka exports. A request without an answer in its time
 * closes its connection, so that a silent broker or network is noticed and the next request opens another one.
 */

import { type Connection, ConnectionPool, findCoordinatorV6, metadataV12 } from '@platformatic/kafka'
import type { Logger } from 'pino'
import { sleep, withTimeout } from '#lib/backoff.ts'
import type { ClientCertificate } from '#lib/client-certificate.ts'
import { deadlines } from '#lib/deadlines.ts'
import type { Closeable } from '#lib/resource.ts'
import { createKnownLeaders, type KnownLeaders, type PartitionLeader } from './known-leaders.ts'

type MetadataResponse = metadataV12.MetadataResponse

export interface KafkaOptions {
  /** `host:port` of some brokers; the others are learned from them. */
  brokers: string[]
  clientId: string
  /** TLS, with a client certificate where there is one. */
  ssl?: Partial<ClientCertificate>
  sasl?: { mechanism: 'plain' | 'scram-sha-256' | 'scram-sha-512'; username: string; password: string }
  /** Of topics that are created here. Default: as many as there are brokers, at most 3. */
  replicationFactor?: number
  log: Logger
}

export interface Address {
  host: string
  port: number
}

/** Connections for one purpose: one for each broker, and one limit for an answer. */
export interface Connections extends Closeable {
  /** Opens it when there is none. Throws when the broker is unknown or does not accept within 1 s. */
  to(node: number): Promise<Connection>
  /** To any broker, another one at each call. */
  toAny(): Promise<Connection>
}

export interface Cluster extends Closeable, KnownLeaders {
  /** For short questions: an answer takes 2 s at most. */
  readonly asking: Connections
  /**
   * `requestTimeoutMs`: a request without an answer for this long fails and closes its connection. More requests than
   * `inFlightMax` wait inside, and their time begins when they are sent.
   */
  connections(requestTimeoutMs: number, inFlightMax?: number): Connections
  /** What one broker knows of the cluster and of these topics, null for all; another one is asked each time. */
  metadata(topics: string[] | null): Promise<MetadataResponse>
  /** Resolves when a broker answers; other ones are asked until `timeoutMs` are over, then it rejects. */
  ping(timeoutMs: number): Promise<void>
  /** The node id of the coordinator; asked at each call. Throws while there is none. */
  coordinator(kind: 'group' | 'transaction', key: string): Promise<number>
}

const connectTimeoutMs = deadlines.engine.logConnectMs
const askingTimeoutMs = deadlines.engine.logAskMs
const closeTimeoutMs = 1_000
const pingPauseMs = 100
/** Requests on one connection that wait for their answers. */
const requestsInFlightMax = 64
const coordinatorKinds = { group: 0, transaction: 1 }
const unknownTopic = 3

export function createCluster(options: KafkaOptions): Cluster {
  const brokers = new Map<number, Address>()
  const pools = new Set<ConnectionPool>()
  const bootstrap = options.brokers.map(addressOf)
  const asking = connections(askingTimeoutMs)

  function connections(requestTimeoutMs: number, inFlightMax = requestsInFlightMax): Connections {
    const pool = new ConnectionPool(options.clientId, {
      connectTimeout: connectTimeoutMs,
      requestTimeout: requestTimeoutMs,
      maxInflights: inFlightMax,
      ...securityOf(options),
    })
    // The pool listens to the first error of a connection; any other one without a listener would end the process.
    pool.on('connecting', ({ connection }) => connection.on('error', () => {}))
    pools.add(pool)
    // Each purpose takes its own turns: calls that take two in a row would always meet the same broker.
    let turn = Math.floor(Math.random() * bootstrap.length)
    return {
      async to(node) {
        const address = brokers.get(node) ?? (await learnBroker(node))
        return await pool.get(address)
      },
      toAny: () => pool.get(anyBroker(turn++)),
      async close() {
        pools.delete(pool)
        await closePool(pool)
      },
    }
  }
  /** Those that were learned and those of the settings take turns: an address that went silent costs one call. */
  function anyBroker(turn: number): Address {
    const all = [...brokers.values(), ...bootstrap]
    return all[turn % all.length] as Address
  }
  async function metadata(topics: string[] | null): Promise<MetadataResponse> {
    const answer = await metadataV12.api
      .async(await asking.toAny(), topics, false, false)
      .catch(responseOf<MetadataResponse>)
    learn(answer)
    return answer
  }
  async function learnBroker(node: number): Promise<Address> {
    await metadata([])
    const address = brokers.get(node)
    if (!address) throw new Error(`the cluster does not name broker ${node}`)
    return address
  }
  function learn(metadata: MetadataResponse): void {
    if (metadata.brokers.length === 0) return
    brokers.clear()
    for (const { nodeId, host, port } of metadata.brokers) brokers.set(nodeId, { host, port })
  }
  async function askLeaders(names: string[]): Promise<Map<string, PartitionLeader[] | null>> {
    const answer = await metadata(names)
    return new Map(names.map((name) => [name, leadersIn(answer, name)]))
  }
  return {
    asking,
    connections,
    metadata,
    ...createKnownLeaders(askLeaders),
    ping: (timeoutMs) => untilAnswered(() => metadata([]), timeoutMs),
    async coordinator(kind, key) {
      const answer = await findCoordinatorV6.api.async(await asking.toAny(), coordinatorKinds[kind], [key])
      const found = answer.coordinators[0]
      if (!found) throw new Error(`no coordinator of the ${kind} ${key}`)
      brokers.set(found.nodeId, { host: found.host, port: found.port })
      return found.nodeId
    },
    async close() {
      await Promise.all([...pools].map(closePool))
      pools.clear()
    },
  }
}

/** Asks again until `timeoutMs` are over; then the last fault is the cause. */
async function untilAnswered(ask: () => Promise<unknown>, timeoutMs: number): Promise<void> {
  const end = performance.now() + timeoutMs
  let last: unknown
  const late = () => new Error('no answer in time', { cause: last })
  for (;;) {
    try {
      await withTimeout(ask(), end - performance.now(), late)
      return
    } catch (error) {
      if (performance.now() + pingPauseMs >= end) throw error
      last = error
      await sleep(pingPauseMs)
    }
  }
}

/** Null when there is no such topic. */
function leadersIn(metadata: MetadataResponse, topic: string): PartitionLeader[] | null {
  const found = metadata.topics.find(({ name }) => name === topic)
  if (!found || found.errorCode === unknownTopic) return null
  return found.partitions
    .map(({ partitionIndex, leaderId }) => ({
      partition: partitionIndex,
      leader: leaderId,
      topicId: found.topicId,
    }))
    .sort((a, b) => a.partition - b.partition)
}

/** A connection closes when its last bytes have left, which on a silent one may be never. */
async function closePool(pool: ConnectionPool): Promise<void> {
  const open = [...pool].map(([, connection]) => connection)
  await withTimeout(pool.close(), closeTimeoutMs, () => new Error('bytes are left')).catch(() => {})
  for (const { socket } of open) socket?.destroy()
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
    ...(ssl ? { tls: ssl, tlsServerName: true } : {}),
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
