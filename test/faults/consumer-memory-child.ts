/** A process with little memory: works through a log in the folder it is given, slowly at first, and says what it took. */

import { setTimeout as sleep } from 'node:timers/promises'
import { pino } from 'pino'
import { Registry } from 'prom-client'
import { openEmbeddedLog } from '#engines/event-log/embedded.ts'
import { done, retry } from '#lib/outcome.ts'
import { startBatchConsumer, startLaneConsumer } from '#runtime/consumer.ts'
import { jsonCodec, testPublisher, testTopic } from '#test/support/consumer-wiring.ts'

const [directory, mode, total] = [process.argv[2]!, process.argv[3]!, Number(process.argv[4])]
const eventLog = await openEmbeddedLog({ directory })
const topic = testTopic('work')
const common = {
  group: 'workers',
  topic,
  callTimeoutMs: 60_000,
  retriesMax: 1_000,
  backoff: { baseMs: 200, maxMs: 500 },
}
const dependencies = {
  eventLog,
  codec: jsonCodec,
  publisher: testPublisher(eventLog, 4),
  log: pino({ level: 'silent' }),
  metrics: new Registry(),
}
const slowUntil = Date.now() + 3_000
let handled = 0
let heapMax = 0
const watch = setInterval(() => {
  const { heapUsed, external } = process.memoryUsage()
  heapMax = Math.max(heapMax, heapUsed + external)
}, 20)

const consumer =
  mode === 'batch'
    ? await startBatchConsumer(dependencies, {
        ...common,
        batchRecordsMax: 1_000,
        batchBytesMax: 1_000_000,
        async handle(messages) {
          if (Date.now() < slowUntil) await sleep(200)
          handled += messages.length
          return messages.map(() => done)
        },
      })
    : await startLaneConsumer(dependencies, {
        ...common,
        concurrency: 64,
        async handle({ key }) {
          // One lane of each partition fails for a while: all that follows it has to wait.
          if (key === 'lane-0' && Date.now() < slowUntil) return retry('not yet')
          handled++
          return done
        },
      })
while (handled < total) await sleep(20)
await consumer.close()
clearInterval(watch)
await eventLog.close()
process.stdout.write(JSON.stringify({ handled, heapMbMax: Math.round(heapMax / 1_048_576) }))
