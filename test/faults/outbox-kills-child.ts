/**
 * A process to be killed: publishes the outbox on distributed engines and ends itself by SIGKILL at the step that its
 * argument names.
 */

import { fileURLToPath } from 'node:url'
import { pino } from 'pino'
import type { EventLog } from '#engines/event-log/port.ts'
import type { Relational } from '#engines/relational/port.ts'
import { withOutbox } from '#runtime/publish/outbox.ts'
import { createPublisher } from '#runtime/publish/publisher.ts'
import { RefusedKeys } from '#runtime/publish/refused-keys.ts'
import { openPlatform } from '#runtime/start/platform.ts'
import { migrationFolders } from '#services/migrations.ts'

/** In the order in which one batch goes through them. */
export const killSteps = [
  'lease taken',
  'name taken over',
  'rows read',
  'sending',
  'one partition sent',
  'all sent',
  'deleting',
  'deleted',
] as const
export type KillStep = (typeof killSteps)[number]

function dieAt(step: KillStep, wanted: KillStep): void {
  if (step === wanted) process.kill(process.pid, 'SIGKILL')
}

function killingLog(log: EventLog, wanted: KillStep): EventLog {
  return {
    ...log,
    async fencedWriter(name) {
      dieAt('lease taken', wanted)
      const writer = await log.fencedWriter(name)
      dieAt('name taken over', wanted)
      return {
        ...writer,
        append(...args) {
          const appended = writer.append(...args)
          // The request may be on its way.
          if (wanted === 'sending') setTimeout(() => dieAt('sending', wanted), 1)
          void appended.then(() => dieAt('one partition sent', wanted))
          return appended
        },
      }
    },
  }
}

function killingRelational(relational: Relational, wanted: KillStep): Relational {
  return {
    ...relational,
    async query(...args: Parameters<Relational['query']>) {
      const isDeletion = args[0].includes('delete from platform.outbox')
      if (isDeletion) dieAt('all sent', wanted)
      const asked = relational.query(...args)
      if (isDeletion && wanted === 'deleting') setTimeout(() => dieAt('deleting', wanted), 1)
      const answer = await asked
      if (isDeletion) dieAt('deleted', wanted)
      else if (args[0].includes('from platform.outbox')) dieAt('rows read', wanted)
      return answer
    },
  } as Relational
}

async function run(wanted: KillStep): Promise<void> {
  const log = pino({ level: 'silent' })
  const platform = await openPlatform({
    env: process.env,
    needs: [],
    migrations: migrationFolders,
    producerName: 'outbox-publisher',
    log,
    lock: false,
  })
  const { codec, locations, engines } = platform
  const eventLog = killingLog(engines.eventLog, wanted)
  const parts = {
    relational: killingRelational(engines.relational, wanted),
    publisher: createPublisher({ eventLog, codec, locations, producerName: 'outbox-publisher' }),
    log,
    holder: `killed at ${wanted}`,
    refused: new RefusedKeys(),
  }
  await withOutbox(parts, (outbox) => outbox.publish())
  await platform.close()
}

// Imported by the test for its steps alone, it does nothing.
if (process.argv[1] === fileURLToPath(import.meta.url)) await run(process.argv[2] as KillStep)
