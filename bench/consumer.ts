/** The consumer runtime on Kafka compared with a bare kafkajs eachBatch loop that decodes the same records. */

import { randomBytes } from 'node:crypto'
import avro from 'avsc'
import kafkajs from 'kafkajs'
import { pino } from 'pino'
import { Registry } from 'prom-client'
import { done } from '#lib/outcome.ts'
import { loadSchemas } from '#lib/schema-files.ts'
import { startBatchConsumer, startLaneConsumer } from '#runtime/consume/consumer.ts'
import { schemasDirectory } from '#runtime/publish/codec.ts'
import { auditEvents } from '#topics/catalog.ts'
import { type Bench, type BenchRow, median } from './bench.ts'
import { fillTopic, type KafkaStage, openKafkaStage } from './kafka-stage.ts'

const records = 300_000
/** Enough that the records fetched ahead at the start (24,000) count little. */
const workedRecords = 120_000
const rounds = 3

type Way = 'bare' | 'batch' | 'lanes'

export const consumerBench: Bench = {
  name: 'consumer',
  purpose:
    'records a second on Kafka: the consumer runtime compared with a bare kafkajs eachBatch loop that decodes the same records',
  async run(report) {
    const stage = await openKafkaStage()
    try {
      await fillTopic(stage, records, report)
      return [
        ...(await compare(stage, report, { total: records, workUs: 0, bars: { batch: 0.9, lanes: 0.5 } })),
        ...(await compare(stage, report, {
          total: workedRecords,
          workUs: 50,
          bars: { batch: 0.9, lanes: 0.9 },
        })),
      ]
    } finally {
      await stage.close()
    }
  },
}

interface Setting {
  total: number
  workUs: number
  bars: { batch: number; lanes: number }
}

/** The three ways in turn, several rounds: the ratio of each round, and their median. */
async function compare(
  stage: KafkaStage,
  report: (text: string) => void,
  setting: Setting,
): Promise<BenchRow[]> {
  const rates: Record<Way, number[]> = { bare: [], batch: [], lanes: [] }
  for (let round = 0; round < rounds; round++) {
    for (const way of ['bare', 'batch', 'lanes'] as const) {
      const seconds = await measure(stage, way, setting)
      rates[way].push(setting.total / seconds)
      report(
        `  round ${round + 1} ${way} ${setting.workUs} µs: ${Math.round(setting.total / seconds)} records/s`,
      )
    }
  }
  const what = setting.workUs > 0 ? `with ${setting.workUs} µs of work a record` : 'empty handler'
  return (['batch', 'lanes'] as const).map((way) => ({
    what: `${way === 'batch' ? 'batch handlers' : 'record handlers'}, ${what}`,
    unit: 'records/s',
    measured: median(rates[way]),
    peer: { what: 'kafkajs eachBatch', value: median(rates.bare) },
    ratio: median(rates[way].map((rate, round) => rate / rates.bare[round]!)),
    bar: { min: setting.bars[way] },
  }))
}

/** Seconds from the first record handled until `total` are. */
async function measure(stage: KafkaStage, way: Way, setting: Setting): Promise<number> {
  const group = `bench-${randomBytes(4).toString('hex')}`
  const positions = Array.from({ length: stage.partitions }, (_, partition) => ({ partition, offset: 0 }))
  await stage.eventLog.setPositions(group, stage.physicalName, positions)
  const count = createCounter(setting)
  const stop =
    way === 'bare'
      ? await runBare(stage, group, count.handled)
      : await runRuntime(stage, way, group, count.handled)
  const seconds = await count.finished
  await stop()
  return seconds
}

function createCounter(setting: Setting) {
  let seen = 0
  let begun = 0
  let finish: (seconds: number) => void
  const finished = new Promise<number>((resolve) => {
    finish = resolve
  })
  return {
    finished,
    handled(): void {
      if (seen === 0) begun = performance.now()
      if (setting.workUs > 0) spin(setting.workUs)
      if (++seen === setting.total) finish((performance.now() - begun) / 1000)
    },
  }
}

/** Keeps the processor busy, as a handler that works would. */
function spin(us: number): void {
  const end = performance.now() + us / 1000
  while (performance.now() < end);
}

async function runBare(stage: KafkaStage, group: string, handled: () => void): Promise<() => Promise<void>> {
  const type = avro.Type.forSchema(JSON.parse(loadSchemas(schemasDirectory).get('audit-event')!))
  const kafka = new kafkajs.Kafka({
    brokers: stage.brokers,
    clientId: 'bare',
    logLevel: kafkajs.logLevel.NOTHING,
  })
  const consumer = kafka.consumer({ groupId: group, maxWaitTimeInMs: 100 })
  await consumer.connect()
  await consumer.subscribe({ topic: stage.physicalName, fromBeginning: true })
  await consumer.run({
    eachBatch: async ({ batch }) => {
      for (const message of batch.messages) {
        type.fromBuffer(message.value!.subarray(5))
        handled()
      }
    },
  })
  return () => consumer.disconnect()
}

async function runRuntime(stage: KafkaStage, way: 'batch' | 'lanes', group: string, handled: () => void) {
  const common = {
    group,
    topic: auditEvents,
    callTimeoutMs: 30_000,
    retriesMax: 3,
    backoff: { baseMs: 100, maxMs: 1_000 },
  }
  const log = pino({ level: 'silent' })
  const { eventLog, codec, publisher } = stage
  const dependencies = { eventLog, codec, publisher, log, metrics: new Registry() }
  const running =
    way === 'batch'
      ? await startBatchConsumer(dependencies, {
          ...common,
          batchRecordsMax: 500,
          batchBytesMax: 1_048_576,
          handle: async (messages) =>
            messages.map(() => {
              handled()
              return done
            }),
        })
      : await startLaneConsumer(dependencies, {
          ...common,
          concurrency: 64,
          handle: async () => {
            handled()
            return done
          },
        })
  return () => running.close()
}
