/** A Kafka log that is closed when its test ends. */

import { pino } from 'pino'
import { onTestFinished } from 'vitest'
import { openKafkaLog } from '#engines/event-log/kafka.ts'
import type { EventLog } from '#engines/event-log/port.ts'
import { deadlines } from '#lib/deadlines.ts'

const { logFetchWaitMs } = deadlines.engine
/** A fetch that was under way when its partition was paused is answered by then. */
export const underWayMs = logFetchWaitMs + 500
/** Longer than two waits: the first finds that nothing comes, the second is shared. */
export const quietMs = 2 * logFetchWaitMs + 1_000

export async function openTestLog(brokers: string[], clientId: string): Promise<EventLog> {
  const log = await openKafkaLog({
    brokers,
    clientId,
    log: pino({ level: process.env.LOG_LEVEL ?? 'silent' }),
  })
  onTestFinished(() => log.close())
  return log
}
