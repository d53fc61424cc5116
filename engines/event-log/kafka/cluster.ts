/**
 * Finds the brokers of a cluster: who leads a partition, who coordinates a group or a transactional id, and a connection
 * to each.
 *
 * Made of the protocol calls and connections that @platformatic/kafka exports. A request without an answer in its time
 * closes its connection, so that a silent broker or network is noticed and the next request opens another one.
 */

import { type Connection, ConnectionPool, findCoordinatorV6, metadataV12 } from '@platformatic/kafka'
import { sleep, withTimeout } from '#lib/backoff.ts'
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
  /** Of the partition's topic: another one when a topic was deleted and made again under its name. */
  topicId: string
}

/** Connections for one purpose: one for each broker, and one limit for an answer. */
export interface Connections extends Closeable {
  /** Opens it when there is none. Throws when the broker is unknown or does not accept within 1 s. */
  to(node: number): Promise<Connection>
  /** To any broker, another one at each call. */
  toAny(): Promise<Connection>
}

export interface Cluster extends Closeable {
  /** For short questions: an answer takes 2 s at most. */
  readonly asking: Connections
  /**
   * `requestTimeoutMs`: a request without an answer for this long fails and closes its connection. More requests than
   * `inFlightMax` wait inside, and their time begins when they are sent.
   */
  connections(requestTimeoutMs: number, inFlightMax?: number): Connections
  /**
   * By partition number; null when the cluster has no such topic. What is known for 5 s is asked for again meanwhile,
   * so that a broker that does not answer holds nobody up; all topics that were wanted since are then one question.
   */
  leaders(topic: string): Promise<PartitionLeader[] | null>
  /** A leader may have moved: asks, while `leaders` goes on with what is known. */
  refreshLeaders(topic: string): void
  /** A leader has moved, or a broker is gone: the next `leaders` asks. */
  forgetLeaders(topic: string): void
  /** Resolves when a broker answers; other ones are asked until `timeoutMs` are over, then it rejects. */
  ping(timeoutMs: number): Promise<void>
  /** The node id of the coordinator; asked at each call. Throws while there is none. */
  coordinator(kind: 'group' | 'transaction', key: string): Promise<number>
}

type MetadataResponse = metadataV12.MetadataResponse

interface KnownLeaders {
  askedAt: number
  leaders: PartitionLeader[]
  /** Since they were asked for. */
  wanted: boolean
}

const connectTimeoutMs = deadlines.engine.logConnectMs
const askingTimeoutMs = deadlines.engine.logAskMs
const closeTimeoutMs = 1_000
const pingPauseMs = 100
/** Of leaders: asked for again after the first, not used any more after the second. */
const leadersAgeMs = { fresh: 5_000, known: 30_000 }
/** Requests on one connection that wait for their answers. */
const requestsInFlightMax = 64
const coordinatorKinds = { group: 0, transaction: 1 }
const unknownTopic = 3

export function createCluster(options: KafkaOptions): Cluster {
  const brokers = new Map<number, Address>()
  const topics = new Map<string, KnownLeaders>()
  const underWay = new Map<string, Promise<PartitionLeader[] | null>>()
  const pools = new Set<ConnectionPool>()
  const bootstrap = options.brokers.map(addressOf)
  const asking = connections(askingTimeoutMs)
  let next = Math.floor(Math.random() * bootstrap.length)

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
    return {
      async to(node) {
        const address = brokers.get(node) ?? (await learnBroker(node))
        return await pool.get(address)
      },
      toAny: () => pool.get(anyBroker()),
      async close() {
        pools.delete(pool)
        await closePool(pool)
      },
    }
  }
  /** Those that were learned and those of the settings take turns: an address that went silent costs one call. */
  function anyBroker(): Address {
    const all = [...brokers.values(), ...bootstrap]
    return all[next++ % all.length] as Address
  }
  async function learnBrokers(): Promise<void> {
    learn(await metadataV12.api.async(await asking.toAny(), [], false, false))
  }
  async function learnBroker(node: number): Promise<Address> {
    await learnBrokers()
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
    const metadata = await metadataV12.api
      .async(await asking.toAny(), names, false, false)
      .catch(responseOf<MetadataResponse>)
    learn(metadata)
    return new Map(names.map((name) => [name, leadersIn(metadata, name)]))
  }
  /** One question at a time for each topic. */
  function learnLeaders(topic: string, more: string[] = []): Promise<PartitionLeader[] | null> {
    const known = underWay.get(topic)
    if (known) return known
    const askedAt = performance.now()
    const names = [topic, ...more.filter((other) => other !== topic && !underWay.has(other))]
    const answers = askLeaders(names)
    for (const name of names) {
      const answer = answers
        .then((found) => {
          const leaders = found.get(name) ?? null
          if (leaders) topics.set(name, { askedAt, leaders, wanted: false })
          else topics.delete(name)
          return leaders
        })
        .finally(() => underWay.delete(name))
      answer.catch(() => {})
      underWay.set(name, answer)
    }
    return underWay.get(topic)!
  }
  const refreshLeaders = (topic: string, more: string[] = []) =>
    void learnLeaders(topic, more).catch(() => {})
  const wantedTopics = () => [...topics].filter(([, { wanted }]) => wanted).map(([name]) => name)
  return {
    asking,
    connections,
    async leaders(topic) {
      const known = topics.get(topic)
      const ageMs = known ? performance.now() - known.askedAt : 0
      if (!known || ageMs > leadersAgeMs.known) return learnLeaders(topic)
      known.wanted = true
      if (ageMs > leadersAgeMs.fresh) refreshLeaders(topic, wantedTopics())
      return known.leaders
    },
    refreshLeaders: (topic) => refreshLeaders(topic),
    forgetLeaders: (topic) => void topics.delete(topic),
    async ping(timeoutMs) {
      const end = performance.now() + timeoutMs
      const late = () => new Error('no answer in time')
      for (;;) {
        try {
          return await withTimeout(learnBrokers(), end - performance.now(), late)
        } catch (error) {
          if (performance.now() + pingPauseMs >= end) throw error
          await sleep(pingPauseMs)
        }
      }
    },
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
