/** Tries once to write a batch to one partition. After a throw nothing is known: the batch may be stored or not. */

import type { Kafka, Message, PartitionerArgs, Producer } from 'kafkajs'
import type { Closeable } from '#lib/resource.ts'
import { quickenProducers } from './produce-request.ts'

export interface Sender extends Closeable {
  send(topic: string, partition: number, messages: Message[]): Promise<number>
  /** Replaces the client: one that has seen a topic which is deleted now fails whenever it refreshes its metadata. */
  renew(): void
}

/** Longer than a broker's default session (9 s): a write that waits for a dead follower is not written twice. */
const acknowledgeTimeoutMs = 12_000
const renewalsEveryMs = 2_000

interface Client {
  producer: Producer
  connected: Promise<void>
  sends: number
  retired: boolean
}

/** `kafka` must not retry by itself: the same batch is repeated above, by the queue that it came from. */
export function createSender(kafka: Kafka): Sender {
  quickenProducers(kafka)
  let current: Client | undefined
  let renewedAt = 0

  function take(): Client {
    if (current) return current
    const producer = kafka.producer({
      idempotent: false,
      allowAutoTopicCreation: false,
      metadataMaxAge: 10_000,
      retry: { retries: 0 },
      createPartitioner: () => choosePartition,
    })
    const client: Client = { producer, connected: producer.connect(), sends: 0, retired: false }
    client.connected.catch(() => {
      if (current === client) current = undefined
    })
    current = client
    return client
  }
  function retire(client: Client | undefined): void {
    if (!client) return
    if (current === client) current = undefined
    client.retired = true
    if (client.sends === 0) end(client)
  }
  return {
    async send(topic, partition, messages) {
      const client = take()
      client.sends++
      try {
        await client.connected
        const results = await client.producer.send({
          topic,
          acks: -1,
          timeout: acknowledgeTimeoutMs,
          messages,
        })
        // A send that resolves may have written nothing: only its own partition without an error counts.
        const own = results.find((one) => one.topicName === topic && one.partition === partition)
        if (own?.errorCode !== 0 || own.baseOffset === undefined || results.length !== 1) {
          throw new Error(`the send was not acknowledged for ${topic}/${partition}`)
        }
        return Number(own.baseOffset)
      } finally {
        client.sends--
        if (client.retired && client.sends === 0) end(client)
      }
    },
    renew() {
      if (Date.now() - renewedAt < renewalsEveryMs) return
      renewedAt = Date.now()
      retire(current)
    },
    async close() {
      retire(current)
    },
  }
}

function end(client: Client): void {
  client.connected.then(() => client.producer.disconnect()).catch(() => {})
}

/**
 * The caller has chosen. A partition that the cached metadata does not know would be dropped silently, and the send
 * would resolve: thrown as what it is, kafkajs refreshes its metadata, and the next try finds a partition that is new.
 */
function choosePartition({ topic, partitionMetadata, message }: PartitionerArgs): number {
  const partition = message.partition as number
  if (!partitionMetadata.some((one) => one.partitionId === partition)) {
    const unknown = new Error(`no metadata of ${topic}/${partition}`)
    throw Object.assign(unknown, { type: 'UNKNOWN_TOPIC_OR_PARTITION', retriable: true })
  }
  return partition
}
