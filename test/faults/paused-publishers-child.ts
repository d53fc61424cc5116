/**
 * A process to be paused: runs one worker on distributed engines. With `hold` its first send under a writer name waits
 * for a moment, notifies the parent, and afterwards says what became of it.
 */

import { fileURLToPath } from 'node:url'
import { pino } from 'pino'
import type { EventLog } from '#engines/event-log/port.ts'
import { sleep } from '#lib/backoff.ts'
import { openPlatform } from '#runtime/platform.ts'
import { createPublisher } from '#runtime/publisher.ts'
import { auditWriter } from '#services/audit/writer/service.ts'
import { noteIndexer } from '#services/hub/note-indexer/service.ts'
import { migrationFolders } from '#services/migrations.ts'
import { outboxPublisher } from '#services/outbox/publisher/service.ts'

/** What the parent hears: it is about to send, then the outcome: `stored` or the code of the error. */
export type Notice = 'sending' | { outcome: string }

/** Long enough for the parent to pause this process. */
const heldMs = 500
const workers = [auditWriter, noteIndexer, outboxPublisher]

function notify(notice: Notice): void {
  process.send?.(notice)
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
          notify('sending')
          await sleep(heldMs)
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
