/**
 * A process with little memory: reads the log in the folder it is given as far as it wants while nothing is handled, then
 * handles everything, and prints the most memory it took.
 */

import { setTimeout as sleep } from 'node:timers/promises'
import { pino } from 'pino'
import { Registry } from 'prom-client'
import { openEmbeddedLog } from '#engines/event-log/embedded.ts'
import type { EventLog } from '#engines/event-log/port.ts'
import { done, retry } from '#lib/outcome.ts'
import { startBatchConsumer, startLaneConsumer } from '#runtime/consume/consumer.ts'
import { jsonCodec, testPublisher, testTopic } from '#test/support/consumer-wiring.ts'

const [directory, mode, total] = [process.argv[2]!, process.argv[3]!, Number(process.argv[4])]
const partitions = 4
/** No record came for this long: the consumer reads no further by itself. */
const quietMs = 500
const opened = await openEmbeddedLog({ directory })
const paused = new Set<number>()
const seen = new Map<number, number>()
let readAt = Date.now()

const eventLog: EventLog = {
  ...opened,
  async consume(options) {
    const { listener } = options
    const consumer = await opened.consume({
      ...options,
      listener: {
        ...listener,
        records(partition, records) {
          readAt = Date.now()
          seen.set(partition, Math.max(seen.get(partition) ?? 0, records.at(-1)!.offset + 1))
          return listener.records(partition, records)
        },
      },
    })
    return {
      ...consumer,
      pause(partition) {
        paused.add(partition)
        consumer.pause(partition)
      },
      resume(partition) {
        paused.delete(partition)
        consumer.resume(partition)
      },
    }
  },
}
/** True until the consumer has read as far as it wants while nothing is handled. */
let held = true
const hold = setInterval(() => {
  const read = [...seen.values()].reduce((sum, end) => sum + end, 0)
  if (paused.size < partitions && read < total) return
  if (Date.now() - readAt < quietMs) return
  held = false
  clearInterval(hold)
}, 20)

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
          while (held) await sleep(20)
          handled += messages.length
          return messages.map(() => done)
        },
      })
    : await startLaneConsumer(dependencies, {
        ...common,
        concurrency: 64,
        async handle({ key }) {
          // One lane of each partition fails for a while: all that follows it has to wait.
          if (key === 'lane-0' && held) return retry('not yet')
          handled++
          return done
        },
      })
while (handled < total) await sleep(20)
await consumer.close()
clearInterval(watch)
await eventLog.close()
process.stdout.write(JSON.stringify({ handled, heapMbMax: Math.round(heapMax / 1_048_576) }))
