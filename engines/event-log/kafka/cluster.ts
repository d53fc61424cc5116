/**
 * Finds the brokers of a cluster: who leads a partition, who coordinates a group or a transactional id, and a connection
 * to each.
 *
 * Made of the protocol calls and connections that @platformatic/kafka exports. A request without an answer in its time
 * closes its connection, so that a silent broker or network is noticed and the next request opens another one.
 */

import {
  ConfigResourceTypes,
  type Connection,
  ConnectionPool,
  describeConfigsV4,
  findCoordinatorV6,
  metadataV12,
} from '@platformatic/kafka'
import type { Logger } from 'pino'
import { withTimeout } from '#lib/backoff.ts'
import { deadlines } from '#lib/deadlines.ts'
import type { Closeable } from '#lib/resource.ts'
import type { ClientCertificate } from '#lib/tls.ts'
import { refusalOf, responseOf } from './calls.ts'
import { createKept } from './metadata.ts'

type MetadataResponse = metadataV12.MetadataResponse

export interface KafkaOptions {
  /** `host:port` of some brokers; the others are learned from them. */
  brokers: string[]
  clientId: string
  /** TLS, with a client certificate where there is one. */
  ssl?: Partial<ClientCertificate>
  sasl?: { mechanism: 'plain' | 'scram-sha-256' | 'scram-sha-512'; username: string; password: string }
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

/** A partition of a topic as a broker described it. */
export interface KnownPartition {
  partition: number
  /** A broker's node id; -1 while there is none. */
  leader: number
  /** Rises with each new leader. */
  leaderEpoch: number
  /** Id of the partition's topic: it changes when a topic is deleted and created again under its name. */
  topicId: string
  replicas: number
  inSync: number
}

export type Cluster = ReturnType<typeof createCluster>

const connectTimeoutMs = deadlines.engine.logConnectMs
const askingTimeoutMs = deadlines.engine.logAskMs
const closeTimeoutMs = 1_000
/** Requests on one connection that wait for their answers. */
const requestsInFlightMax = 64
const coordinatorKinds = { group: 0, transaction: 1 }
const unknownTopic = 3
/** The coordinator has moved or loads the group: the next call looks for it again. */
const coordinatorAway: ReadonlySet<string> = new Set([
  'COORDINATOR_NOT_AVAILABLE',
  'COORDINATOR_LOAD_IN_PROGRESS',
  'NOT_COORDINATOR',
])

export function createCluster(options: KafkaOptions) {
  const brokers = new Map<number, Address>()
  const pools = new Set<ConnectionPool>()
  const bootstrap = options.brokers.map(parseAddress)
  /** For short questions: an answer takes 2 s at most. */
  const asking = connections(askingTimeoutMs)

  /**
   * `requestTimeoutMs`: a request without an answer for this long fails and closes its connection. More requests than
   * `inFlightMax` wait inside, and their time begins when they are sent.
   */
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
  /** What one broker knows of the cluster and of these topics, null for all; another one is asked each time. */
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
  /** The partitions of topics, by their number. */
  const topics = createKept(async (names) => partitionsIn(await metadata(names)))
  /** All settings of topics by name; null where a broker hides the value. */
  const settings = createKept(async (names) => settingsIn(await describeTopics(await asking.toAny(), names)))
  const coordinators = createKept((names) => askCoordinators('group', names))

  async function askCoordinators(
    kind: keyof typeof coordinatorKinds,
    keys: string[],
  ): Promise<Map<string, number>> {
    const { coordinators } = await findCoordinatorV6.api
      .async(await asking.toAny(), coordinatorKinds[kind], keys)
      .catch(responseOf<findCoordinatorV6.FindCoordinatorResponse>)
    const known = coordinators.filter(({ errorCode }) => errorCode === 0)
    for (const { nodeId, host, port } of known) brokers.set(nodeId, { host, port })
    return new Map(known.map(({ key, nodeId }) => [key, nodeId]))
  }
  function found(node: number | null | undefined, key: string): number {
    if (node == null) throw new Error(`no coordinator of ${key}`)
    return node
  }
  /** The node id of a group's coordinator. Throws while there is none. */
  const coordinator = async (group: string) => found(await coordinators.get(group), group)
  return {
    asking,
    connections,
    topics,
    settings,
    metadata,
    /** `host:port (id)` of a broker; null for one that is not known. */
    addressOf(node: number): string | null {
      const address = brokers.get(node)
      return address ? `${address.host}:${address.port} (${node})` : null
    },
    coordinator,
    /** A coordinator may have moved, or be away: the next call looks for it. */
    forgetCoordinator: coordinators.forget,
    /** Calls a group's coordinator; the next call looks for it again when it did not answer, or has moved. */
    async atCoordinator<T>(
      group: string,
      through: Connections,
      call: (to: Connection) => Promise<T>,
    ): Promise<T> {
      try {
        return await call(await through.to(await coordinator(group)))
      } catch (error) {
        if (isCoordinatorAway(error)) coordinators.forget(group)
        throw error
      }
    },
    /** The node id of the coordinator of a transactional id; asked at each call. */
    transactionCoordinator: async (id: string) =>
      found((await askCoordinators('transaction', [id])).get(id), id),
    async close() {
      await Promise.all([...pools].map(closePool))
      pools.clear()
    },
  }
}

/** By topic, without those that the broker does not have. */
function partitionsIn(metadata: MetadataResponse): Map<string, KnownPartition[]> {
  const known = metadata.topics.filter(({ errorCode }) => errorCode !== unknownTopic)
  return new Map(
    known.map(({ name, topicId, partitions }) => [
      name as string,
      partitions
        .map(({ partitionIndex, leaderId, leaderEpoch, replicaNodes, isrNodes }) => ({
          partition: partitionIndex,
          leader: leaderId,
          leaderEpoch,
          topicId,
          replicas: replicaNodes.length,
          inSync: isrNodes.length,
        }))
        .sort((a, b) => a.partition - b.partition),
    ]),
  )
}

function describeTopics(to: Connection, names: string[]): Promise<describeConfigsV4.DescribeConfigsResponse> {
  const topics = names.map((name) => ({ resourceType: ConfigResourceTypes.TOPIC, resourceName: name }))
  return describeConfigsV4.api
    .async(to, topics, false, false)
    .catch(responseOf<describeConfigsV4.DescribeConfigsResponse>)
}

/** By topic, without those that the broker does not have. */
function settingsIn({
  results,
}: describeConfigsV4.DescribeConfigsResponse): Map<string, Map<string, string | null>> {
  const known = results.filter(({ errorCode }) => errorCode !== unknownTopic)
  const refused = known.find(({ errorCode }) => errorCode !== 0)
  if (refused) throw new Error(`the settings of ${refused.resourceName}: error ${refused.errorCode}`)
  return new Map(
    known.map(({ resourceName, configs }) => [
      resourceName,
      new Map(configs.map(({ name, value }) => [name, value ?? null])),
    ]),
  )
}

/** No answer, or one that sends the caller elsewhere. */
export function isCoordinatorAway(error: unknown): boolean {
  const refusal = refusalOf(error)
  return refusal === null || coordinatorAway.has(refusal)
}

/** A connection closes when its last bytes have left, which on a silent one may be never. */
async function closePool(pool: ConnectionPool): Promise<void> {
  const open = [...pool].map(([, connection]) => connection)
  await withTimeout(pool.close(), closeTimeoutMs, () => new Error('bytes are left')).catch(() => {})
  for (const { socket } of open) socket?.destroy()
}

function parseAddress(broker: string): Address {
  const colon = broker.lastIndexOf(':')
  return { host: broker.slice(0, colon), port: Number(broker.slice(colon + 1)) }
}

function securityOf({ ssl, sasl }: KafkaOptions) {
  const mechanism = sasl?.mechanism.toUpperCase() as 'PLAIN' | 'SCRAM-SHA-256' | 'SCRAM-SHA-512'
  return {
    ...(ssl ? { tls: ssl, tlsServerName: true } : {}),
    ...(sasl ? { sasl: { ...sasl, mechanism } } : {}),
  }
}
