/** Hears what runs wait for: notices of the database, and records of runs.commands and runs.control. */

import type { Logger } from 'pino'
import type { EventLog, StoredRecord } from '#engines/event-log/port.ts'
import type { Relational } from '#engines/relational/port.ts'
import { describeError } from '#lib/errors.ts'
import { type Closeable, createScope } from '#lib/resource.ts'
import type { Codec, Publisher } from '#runtime/messages.ts'
import { hearNotices } from '#runtime/notices.ts'
import { runsCommands, runsControl } from '#topics/catalog.ts'
import { cancelNotice, runsChannel } from '../state/notice.ts'

export interface WakeupParts {
  eventLog: EventLog
  relational: Relational
  publisher: Pick<Publisher, 'locationOf'>
  codec: Codec
  log: Logger
}

export interface Heard {
  /** A run waits at this node. */
  run(slug: string, runId: string | null): void
  /** Somebody canceled a run. */
  cancel(): void
  /** Listening began: something may have been missed. */
  again(): void
}

export async function hearOfRuns(parts: WakeupParts, heard: Heard): Promise<Closeable> {
  const { eventLog, publisher, codec, log } = parts
  const scope = createScope()
  const notices = hearNotices(parts, runsChannel, (payload) => {
    if (!payload) heard.again()
    else if (payload === cancelNotice) heard.cancel()
    else heard.run(payload, null)
  })
  scope.add('notices', notices)
  try {
    for (const topic of [runsCommands, runsControl]) {
      const tail = await eventLog.tail({
        topic: publisher.locationOf(topic).physicalName,
        from: 'end',
        records: (_partition, records) => {
          for (const record of records) void take(topic, record)
        },
      })
      scope.add(topic.name, tail)
    }
  } catch (error) {
    await scope.close()
    throw error
  }

  async function take(topic: typeof runsCommands, record: StoredRecord): Promise<void> {
    try {
      const { value } = await codec.decode(topic, record)
      if (value?.command === 'cancel') heard.cancel()
      else if (value) heard.run(value.slug, value.run_id)
    } catch (error) {
      // The sweep finds the run.
      log.warn({ topic: topic.name, reason: describeError(error) }, 'runs.command-unreadable')
    }
  }

  return scope
}
