/**
 * A process in which one target is away: its deliveries wait, in the lane mode of the courier, while other topics are
 * written next to them. Prints how much memory that took. Arguments: data directory or broker, topic, mode, deliveries, of
 * these among others, and the MB of resident memory and of buffers below which it looks no further.
 */

import { setTimeout as sleep } from 'node:timers/promises'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { pino } from 'pino'
import { Registry } from 'prom-client'
import { openEmbeddedLog } from '#engines/event-log/embedded.ts'
import { openKafkaLog } from '#engines/event-log/kafka.ts'
import type { EventLog } from '#engines/event-log/port.ts'
import { done, retry } from '#lib/outcome.ts'
import { startBatchConsumer, startLaneConsumer } from '#runtime/consume/consumer.ts'
import { jsonCodec, testPublisher, testTopic } from '#test/support/consumer-wiring.ts'

const [where, name, mode] = process.argv.slice(2, 5) as [string, string, string]
const limits = process.argv.slice(5, 9).map(Number) as [number, number, number, number]
const [total, sparse, rssMbEnough, arrayBuffersMbEnough] = limits
setFlagsFromString('--expose-gc')
const collect = runInNewContext('gc') as () => void
const log = pino({ level: 'silent' })
const eventLog: EventLog = where.startsWith('/')
  ? await openEmbeddedLog({ directory: where })
  : await openKafkaLog({ brokers: [where], clientId: name, log })

const topic = testTopic(name)

const spec = {
  cleanup: 'delete' as const,
  retentionMs: null,
  tombstoneRetentionMs: 1e9,
  segmentBytes: 1e8,
  segmentMs: 1e9,
  recordBytesMax: 2e6,
}
await eventLog.createTopic({ name, partitions: 2, ...spec })
await eventLog.createTopic({ name: `${name}.dead-letters`, partitions: 1, ...spec })
// Used by this run alone: members of a killed run stay in theirs for a while.
const group = `workers-${name}`
await eventLog.setPositions(
  group,
  name,
  [0, 1].map((partition) => ({ partition, offset: 0 })),
)
const dependencies = {
  eventLog,
  codec: jsonCodec,
  publisher: testPublisher(eventLog, 2),
  log,
  metrics: new Registry(),
}
const common = {
  group,
  topic,
  callTimeoutMs: 5_000,
  retriesMax: 1e6,
  backoff: { baseMs: 60_000, maxMs: 60_000 },
}
if (mode === 'lanes') {
  await startLaneConsumer(dependencies, {
    ...common,
    concurrency: 1,
    keyIsLane: () => true,
    handle: async ({ partition }) => (partition === 0 ? retry('the target is away') : done),
  })
} else {
  await startBatchConsumer(dependencies, {
    ...common,
    batchRecordsMax: 100,
    batchBytesMax: 1_000_000,
    handle: async (messages) =>
      messages.map(({ partition }) => (partition === 0 ? retry('the engine is away') : done)),
  })
}

const text = 'x'.repeat(300)
let deliveries = 0
const delivery = () => ({
  key: Buffer.from('target'),
  value: Buffer.from(JSON.stringify({ n: deliveries, event: 'task.completed', text })),
  headers: { 'event-id': `event-${deliveries++}` },
})
const bulk = Array.from({ length: 24 }, (_, n) => ({
  key: Buffer.from(`p${n}`),
  value: Buffer.from(JSON.stringify({ text: '7'.repeat(6_300) })),
  headers: {},
}))
const append = (partition: number, records: Parameters<EventLog['append']>[2]) =>
  eventLog.append(name, partition, records, { timeoutMs: 60_000 })

const amongOthers = (records: Parameters<EventLog['append']>[2]) =>
  Promise.all([append(0, records), ...bulk.map((record) => append(1, [record]))])

// The memory of the traffic alone is taken before anything waits.
for (let n = 0; n < sparse / 2; n++) await amongOthers([])
await sleep(1_000)
collect()
const before = process.memoryUsage()
// Each of the first ones comes in the middle of much that is done at once; the rest comes by itself.
while (deliveries < sparse) await amongOthers([delivery()])
while (deliveries < total)
  await append(0, Array.from({ length: Math.min(500, total - deliveries) }, delivery))
// Free memory returns to the system some time after it was collected.
const looksMax = 30
const megabytes = (bytes: number) => Math.round(bytes / 1_048_576)
let rssMb = 0
let arrayBuffersMb = 0
for (let look = 0; look < looksMax; look++) {
  await sleep(1_000)
  collect()
  const { rss, arrayBuffers } = process.memoryUsage()
  rssMb = megabytes(rss - before.rss)
  arrayBuffersMb = megabytes(arrayBuffers - before.arrayBuffers)
  if (rssMb < rssMbEnough && arrayBuffersMb < arrayBuffersMbEnough) break
}
process.stdout.write(JSON.stringify({ deliveries, rssMb, arrayBuffersMb }))
process.exit(0)
