/**
 * Tries once to write a batch to its partition's leader. Small batches under one identity that are ready at the same
 * time go to their broker in one request; what is answered counts for each alone.
 */

import type { Cluster } from './cluster.ts'
import { NotSent, type ProduceBatch, type ProduceClient, type ProducerIdentity } from './produce-client.ts'

export interface Send extends ProduceBatch {
  identity: ProducerIdentity
  /** As stored. */
  bytes: number
  /** An earlier try failed: the batch goes in a request of its own. */
  again: boolean
}

export interface Sender {
  /** The offset of the first record. Throws SendFault. */
  send(batch: Send): Promise<number>
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

export function createSender(
  cluster: Pick<Cluster, 'leaders' | 'refreshLeaders'>,
  client: Pick<ProduceClient, 'produce'>,
): Sender {
  /** By broker, id and epoch: what goes out at the end of this turn of the event loop. */
  const gathered = new Map<string, Waiting[]>()

  async function leaderOf({ topic, partition }: Send): Promise<number> {
    const leaders = await cluster.leaders(topic).catch((cause: unknown) => {
      throw new SendFault(null, true, cause)
    })
    const found = leaders?.find((one) => one.partition === partition)
    if (found && found.leader >= 0) return found.leader
    cluster.refreshLeaders(topic)
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
      for (const { reject } of request) reject(new SendFault(null, cause instanceof NotSent, cause))
    }
  }
  return {
    async send(batch) {
      const node = await leaderOf(batch)
      const { promise, resolve, reject } = Promise.withResolvers<number>()
      const one = { batch, resolve, reject }
      if (batch.again || batch.bytes >= sharedBytesMax) void ask(node, [one])
      else gather(node, one)
      try {
        return await promise
      } catch (fault) {
        cluster.refreshLeaders(batch.topic)
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
