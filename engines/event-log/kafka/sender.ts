/**
 * Writes batches to the leaders of their partitions, and takes producer ids. Made of the protocol calls that @platformatic/kafka
 * exports. A batch is tried once; small batches under one identity that are ready at the same time go to their broker in one
 * request, and each has its own answer in it.
 */

import {
  type Connection,
  initProducerIdV5,
  type MessageRecord,
  NumericMap,
  produceV11,
  protocolErrorsCodesById,
} from '@platformatic/kafka'
import { deadlines } from '#lib/deadlines.ts'
import type { NewRecord } from '../port.ts'
import { responseOf } from './calls.ts'
import type { Cluster } from './cluster.ts'

export interface Send extends ProduceBatch {
  identity: ProducerIdentity
  /** As stored. */
  bytes: number
  /** An earlier try failed: the batch goes in a request of its own. */
  again: boolean
}

/** Why one try failed. */
export class SendFault extends Error {
  /** The protocol's name; null when there was no answer. */
  readonly type: string | null
  /** The batch is not in the log, and no byte of this try can bring it there. */
  readonly refused: boolean

  constructor(type: string | null, refused: boolean, cause?: unknown) {
    super(type ?? 'no answer', { cause })
    this.type = type
    this.refused = refused
  }
}

interface Waiting {
  batch: Send
  resolve(offset: number): void
  reject(fault: SendFault): void
}

/** A request that is shared holds at most this; larger batches gain nothing by company. */
const sharedBytesMax = 524_288
/** The broker answers these before it writes anything. With any other the batch may be stored. */
const refusals = new Set([
  'UNKNOWN_TOPIC_OR_PARTITION',
  'NOT_ENOUGH_REPLICAS',
  'MESSAGE_TOO_LARGE',
  'RECORD_LIST_TOO_LARGE',
  'INVALID_RECORD',
  'INVALID_TIMESTAMP',
  'CORRUPT_MESSAGE',
  'TOPIC_AUTHORIZATION_FAILED',
  'OUT_OF_ORDER_SEQUENCE_NUMBER',
  'UNKNOWN_PRODUCER_ID',
  'INVALID_PRODUCER_EPOCH',
])

export type Sender = ReturnType<typeof createSender>

export function createSender(
  topics: Pick<Cluster['topics'], 'get' | 'refresh'>,
  client: Pick<ProduceClient, 'produce'>,
) {
  /** The broker that a partition's last batch went to, by topic and partition. */
  const lastNodes = new Map<string, number>()
  /** Batches by broker, id and epoch that go out at the end of this turn of the event loop. */
  const gathered = new Map<string, Waiting[]>()

  async function leaderOf({ topic, partition }: Send): Promise<number> {
    const leaders = await topics.get(topic).catch((cause: unknown) => {
      throw new SendFault(null, true, cause)
    })
    const found = leaders?.find((one) => one.partition === partition)
    if (found && found.leader >= 0) return found.leader
    topics.refresh(topic)
    throw new SendFault(found ? 'LEADER_NOT_AVAILABLE' : 'UNKNOWN_TOPIC_OR_PARTITION', true)
  }
  function gather(node: number, one: Waiting): void {
    const { id, epoch } = one.batch.identity
    const name = `${node} ${id} ${epoch}`
    const others = gathered.get(name)
    if (others) {
      others.push(one)
      return
    }
    const group = [one]
    gathered.set(name, group)
    setImmediate(() => {
      gathered.delete(name)
      for (const request of requestsOf(group)) void ask(node, request)
    })
  }
  async function ask(node: number, request: Waiting[]): Promise<void> {
    const batches = request.map(({ batch }) => batch)
    try {
      const answers = await client.produce(node, batches[0]!.identity, batches)
      for (const [n, answer] of answers.entries()) {
        if ('offset' in answer) request[n]!.resolve(answer.offset)
        else request[n]!.reject(new SendFault(answer.fault, refusals.has(answer.fault)))
      }
    } catch (cause) {
      const fault = cause instanceof SendFault ? cause : new SendFault(null, false, cause)
      for (const { reject } of request) reject(fault)
    }
  }
  return {
    /** Where the last batch of a partition went. */
    lastNode: (topic: string, partition: number) => lastNodes.get(`${topic}/${partition}`),
    /** The offset of the first record. Throws SendFault. */
    async send(batch: Send): Promise<number> {
      const node = await leaderOf(batch)
      lastNodes.set(`${batch.topic}/${batch.partition}`, node)
      const { promise, resolve, reject } = Promise.withResolvers<number>()
      const one = { batch, resolve, reject }
      if (batch.again || batch.bytes >= sharedBytesMax) void ask(node, [one])
      else gather(node, one)
      try {
        return await promise
      } catch (fault) {
        topics.refresh(batch.topic)
        throw fault
      }
    },
  }
}

function requestsOf(group: Waiting[]): Waiting[][] {
  const requests: Waiting[][] = []
  let bytes = sharedBytesMax
  for (const one of group) {
    if (bytes + one.batch.bytes > sharedBytesMax) {
      requests.push([])
      bytes = 0
    }
    requests.at(-1)!.push(one)
    bytes += one.batch.bytes
  }
  return requests
}

/** The broker refuses late batches by it: an id, and an epoch of that id. */
export interface ProducerIdentity {
  id: bigint
  epoch: number
}

/** Records for one partition, with the sequence of the first. */
export interface ProduceBatch {
  topic: string
  partition: number
  records: NewRecord[]
  sequence: number
}

/** The offset of the first record, or the protocol's name of the fault. */
export type ProduceAnswer = { offset: number } | { fault: string }

export class IdentityRefused extends Error {
  /** The protocol's name of the fault. */
  readonly type: string

  constructor(type: string) {
    super(`no producer id: ${type}`)
    this.type = type
  }
}

const acksOfAll = -1
/** A broker answers by then, also when followers are late; a connection without an answer a second later is closed. */
const brokerTimeoutMs = deadlines.engine.logBrokerWriteMs
const requestTimeoutMs = deadlines.engine.logRequestMs
/** A broker takes one request of a connection at a time: a few that wait are enough to keep it busy. */
const inFlightMax = 5
/** Only transactions use it, and none is begun. */
const transactionTimeoutMs = 60_000
const headerNamesMax = 1_000

export type ProduceClient = ReturnType<typeof createProduceClient>

export function createProduceClient(cluster: Cluster) {
  const connections = cluster.connections(requestTimeoutMs, inFlightMax)
  const headerNames = new Map<string, Buffer>()

  /** Few names are on all records. */
  function nameBytes(name: string): Buffer {
    let bytes = headerNames.get(name)
    if (!bytes) {
      bytes = Buffer.from(name)
      if (headerNames.size < headerNamesMax) headerNames.set(name, bytes)
    }
    return bytes
  }
  function messageOf(
    record: NewRecord,
    { topic, partition }: ProduceBatch,
    timestamp: bigint,
  ): MessageRecord {
    const message: Partial<MessageRecord> = { topic, partition, timestamp }
    if (record.key !== null) message.key = record.key
    if (record.value !== null) message.value = record.value
    if (record.headers) {
      message.headers = new Map()
      for (const name in record.headers) {
        message.headers.set(nameBytes(name), Buffer.from(record.headers[name]!))
      }
    }
    // The type asks for a value; the encoder writes a missing one as null, which is what a tombstone is.
    return message as MessageRecord
  }
  return {
    /** One request; an answer for each batch, in their order. Throws SendFault, or anything when there was no answer. */
    async produce(
      node: number,
      { id, epoch }: ProducerIdentity,
      batches: ProduceBatch[],
    ): Promise<ProduceAnswer[]> {
      const connection = await connections.to(node).catch((cause: unknown): Connection => {
        throw new SendFault(null, true, cause)
      })
      const sequences = new NumericMap()
      const messages: MessageRecord[] = []
      const now = BigInt(Date.now())
      for (const batch of batches) {
        sequences.set(`${batch.topic}:${batch.partition}`, batch.sequence)
        for (const record of batch.records) messages.push(messageOf(record, batch, now))
      }
      const options = { producerId: id, producerEpoch: epoch, sequences }
      const response = (await produceV11.api
        .async(connection, acksOfAll, brokerTimeoutMs, messages, options)
        .catch(responseOf<produceV11.ProduceResponse>)) as produceV11.ProduceResponse
      return batches.map((batch) => answerTo(batch, response))
    },
    /**
     * A new id; or, under a transactional id, the next epoch of its id. With `former` only its holder gets it. Throws
     * IdentityRefused, or anything when there was no answer.
     */
    async identify(transactionalId?: string, former?: ProducerIdentity): Promise<ProducerIdentity> {
      const connection =
        transactionalId === undefined
          ? await cluster.asking.toAny()
          : await cluster.asking.to(await cluster.transactionCoordinator(transactionalId))
      const answer = await initProducerIdV5.api
        .async(connection, transactionalId ?? null, transactionTimeoutMs, former?.id, former?.epoch)
        .catch(responseOf<initProducerIdV5.InitProducerIdResponse>)
      if (answer.errorCode !== 0) throw new IdentityRefused(nameOf(answer.errorCode))
      return { id: answer.producerId, epoch: answer.producerEpoch }
    },
    close: connections.close,
  }
}

function answerTo({ topic, partition }: ProduceBatch, response: produceV11.ProduceResponse): ProduceAnswer {
  const own = response.responses
    .find(({ name }) => name === topic)
    ?.partitionResponses.find(({ index }) => index === partition)
  if (!own) throw new Error(`the answer has nothing about ${topic}/${partition}`)
  const fault = own.errorCode === 0 ? null : nameOf(own.errorCode)
  // The broker knows the batch and says where it is: stored by an earlier try.
  const repeated = fault === 'DUPLICATE_SEQUENCE_NUMBER' && own.baseOffset >= 0n
  return fault === null || repeated ? { offset: Number(own.baseOffset) } : { fault }
}

function nameOf(errorCode: number): string {
  return protocolErrorsCodesById[errorCode] ?? `error ${errorCode}`
}
