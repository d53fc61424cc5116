/** The Kafka driver's producer compared with bare kafkajs sends of 500 records to one partition each. */

import kafkajs from 'kafkajs'
import { type Bench, median } from './bench.ts'
import { type KafkaStage, openKafkaStage } from './kafka-stage.ts'

const batch = 500
const batches = 400
const rounds = 5

export const producerBench: Bench = {
  name: 'producer',
  purpose:
    'records a second into Kafka: the driver compared with bare kafkajs sends of 500 records to one partition each',
  async run(report) {
    const stage = await openKafkaStage()
    const kafka = new kafkajs.Kafka({
      brokers: stage.brokers,
      clientId: 'bare',
      logLevel: kafkajs.logLevel.NOTHING,
    })
    const producer = kafka.producer({
      idempotent: false,
      createPartitioner: kafkajs.Partitioners.DefaultPartitioner,
    })
    await producer.connect()
    const rates: { bare: number[]; driver: number[] } = { bare: [], driver: [] }
    try {
      for (let round = 0; round <= rounds; round++) {
        const bare = await inTurns(stage, (partition) => sendBare(producer, stage, partition))
        const driver = await inTurns(stage, (partition) => sendDriver(stage, partition))
        report(`  round ${round}: bare ${Math.round(bare)}, driver ${Math.round(driver)} records/s`)
        if (round === 0) continue // The first round warms both up.
        rates.bare.push(bare)
        rates.driver.push(driver)
      }
    } finally {
      await producer.disconnect()
      await stage.close()
    }
    return [
      {
        what: '1 KB records, one send in flight a partition',
        unit: 'records/s',
        measured: median(rates.driver),
        peer: { what: 'kafkajs send', value: median(rates.bare) },
        ratio: median(rates.driver.map((rate, round) => rate / rates.bare[round]!)),
        bar: { min: 0.9 },
      },
    ]
  },
}

const value = Buffer.alloc(1024, 'x')
const bareMessages = Array.from({ length: batch }, (_, i) => ({ key: `key-${i}`, value }))
const ownRecords = Array.from({ length: batch }, (_, i) => ({ key: Buffer.from(`key-${i}`), value }))

/** Every partition sends its share, one batch after the other; records a second over all of them. */
async function inTurns(stage: KafkaStage, send: (partition: number) => Promise<unknown>): Promise<number> {
  const begun = performance.now()
  let left = batches
  await Promise.all(
    Array.from({ length: stage.partitions }, async (_, partition) => {
      while (left-- > 0) await send(partition)
    }),
  )
  return (batches * batch) / ((performance.now() - begun) / 1000)
}

function sendBare(producer: kafkajs.Producer, stage: KafkaStage, partition: number): Promise<unknown> {
  const messages = bareMessages.map((message) => ({ ...message, partition }))
  return producer.send({ topic: stage.physicalName, acks: -1, messages })
}

function sendDriver(stage: KafkaStage, partition: number): Promise<unknown> {
  return stage.eventLog.append(stage.physicalName, partition, ownRecords, { timeoutMs: 30_000 })
}
