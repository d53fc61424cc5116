/** A process to be killed: consumes from a log in the folder it is given and writes down what it does, as it does it. */

import { appendFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { pino } from 'pino'
import { Registry } from 'prom-client'
import { openEmbeddedLog } from '#engines/event-log/embedded.ts'
import { done } from '#lib/outcome.ts'
import { startBatchConsumer, startLaneConsumer } from '#runtime/consume/consumer.ts'
import { jsonCodec, testPublisher, testTopic } from '#test/support/consumer-wiring.ts'

/** `start` and `end` of the handling of a record. */
export interface Noted {
  what: 'start' | 'end'
  at: string
}

export const partitions = 3

export const ledgerOf = (directory: string) => join(directory, 'ledger')

/** Written before the next step: everything in the ledger happened before the kill. */
function ledgerWriter(directory: string) {
  return (what: Noted['what'], messages: { partition: number; offset: number }[]): void => {
    const lines = messages.map(({ partition, offset }) => `${what} ${partition}/${offset}\n`)
    appendFileSync(ledgerOf(directory), lines.join(''))
  }
}

async function work(directory: string, mode: string): Promise<void> {
  const note = ledgerWriter(directory)
  const eventLog = await openEmbeddedLog({ directory })
  const topic = testTopic('work')
  const common = {
    group: 'workers',
    topic,
    callTimeoutMs: 5_000,
    retriesMax: 3,
    backoff: { baseMs: 1, maxMs: 10 },
  }
  const dependencies = {
    eventLog,
    codec: jsonCodec,
    publisher: testPublisher(eventLog, partitions),
    log: pino({ level: 'silent' }),
    metrics: new Registry(),
  }
  if (mode === 'batch') {
    await startBatchConsumer(dependencies, {
      ...common,
      batchRecordsMax: 20,
      batchBytesMax: 1_000_000,
      async handle(messages) {
        note('start', messages)
        await sleep(10)
        note('end', messages)
        return messages.map(() => done)
      },
    })
  } else {
    await startLaneConsumer(dependencies, {
      ...common,
      concurrency: 8,
      async handle(message) {
        note('start', [message])
        // One kind of record ends the process whenever it is handled.
        if (mode === 'deadly' && message.key === 'lane-3') process.kill(process.pid, 'SIGKILL')
        await sleep(message.offset % 4)
        note('end', [message])
        return done
      },
    })
  }
}

// Imported by the test for its types and numbers alone, it does nothing.
if (process.argv[1] === fileURLToPath(import.meta.url)) await work(process.argv[2]!, process.argv[3]!)
