/**
 * A process to be paused: runs one worker on distributed engines. With `hold` it notifies the parent before its first
 * send under a writer name and pauses itself there; when it goes on it prints the outcome of that send.
 */

import { fileURLToPath } from 'node:url'
import { pino } from 'pino'
import type { EventLog } from '#engines/event-log/port.ts'
import { createPublisher } from '#runtime/publish/publisher.ts'
import { openPlatform } from '#runtime/start/platform.ts'
import { auditWriter } from '#services/access/audit/writer/service.ts'
import { migrationFolders } from '#services/migrations.ts'
import { outboxPublisher } from '#services/outbox/publisher/service.ts'
import { noteIndexer } from '#services/records/note-indexer/service.ts'

/** Messages to the parent: it is about to send and pauses itself, then the outcome: `stored` or the code of the error. */
export type Notice = 'sending' | { outcome: string }

const workers = [auditWriter, noteIndexer, outboxPublisher]

function notify(notice: Notice): void {
  process.send?.(notice)
}

/** The parent has the notice by then, however busy it is. */
function pauseItself(): Promise<void> {
  return new Promise((resolve) => {
    process.send?.('sending' satisfies Notice, () => {
      process.kill(process.pid, 'SIGSTOP')
      resolve()
    })
  })
}

function holdFirst(log: EventLog): EventLog {
  let first = true
  return {
    ...log,
    async fencedWriter(name) {
      const writer = await log.fencedWriter(name)
      return {
        ...writer,
        async append(...args) {
          if (!first) return writer.append(...args)
          first = false
          await pauseItself()
          const appended = writer.append(...args)
          appended.then(
            () => notify({ outcome: 'stored' }),
            (error) => notify({ outcome: error.code }),
          )
          return appended
        },
      }
    },
  }
}

async function run(name: string, hold: boolean): Promise<void> {
  const worker = workers.find((one) => one.name === name)!
  const log = pino({ level: 'warn' })
  const platform = await openPlatform({
    env: process.env,
    needs: ['localEmbedder', 'embedder'],
    migrations: migrationFolders,
    producerName: name,
    log,
    lock: false,
  })
  const eventLog = hold ? holdFirst(platform.engines.eventLog) : platform.engines.eventLog
  const { codec, locations } = platform
  await worker.start({
    ...platform,
    engines: { ...platform.engines, eventLog },
    publisher: createPublisher({ eventLog, codec, locations, producerName: name }),
  })
}

// Imported by the test for its types alone, it does nothing.
if (process.argv[1] === fileURLToPath(import.meta.url))
  await run(process.argv[2]!, process.argv[3] === 'hold')
