/** The fair comparison on Kafka: kafkajs reads and commits, undici sends, in the order of each partition, and no more. */

import { randomUUID } from 'node:crypto'
import { Kafka, logLevel } from 'kafkajs'
import { Client } from 'undici'
import { webhooksDeliveries } from '#topics/catalog.ts'
import { post, type Sample } from './webhook-stage.ts'

/** Sends `sample` for each record that waits, `count` for each of the sinks; none is decoded, signed or counted. */
export async function kafkaFloorDrain(
  brokers: string[],
  urls: string[],
  sample: Sample,
  count: number,
): Promise<void> {
  const kafka = new Kafka({ brokers, clientId: 'floor', logLevel: logLevel.ERROR })
  const consumer = kafka.consumer({ groupId: `floor-${randomUUID()}` })
  const clients = urls.map((url) => new Client(url))
  const all = Promise.withResolvers<void>()
  let left = urls.length * count
  await consumer.connect()
  await consumer.subscribe({ topics: [webhooksDeliveries.name], fromBeginning: true })
  await consumer.run({
    partitionsConsumedConcurrently: urls.length,
    async eachBatch({ batch, resolveOffset, heartbeat }) {
      for (const { key, offset } of batch.messages) {
        const sink = Number(/\d+$/.exec(key?.toString() ?? '')?.[0])
        await post(clients[sink]!, sample, Number(offset) + 1)
        resolveOffset(offset)
        if (--left === 0) all.resolve()
      }
      await heartbeat()
    },
  })
  await all.promise
  await consumer.disconnect()
  await Promise.all(clients.map((client) => client.close()))
}
