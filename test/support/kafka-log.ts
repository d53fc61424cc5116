/** A Kafka log that is closed when its test ends. */

import { pino } from 'pino'
import { onTestFinished } from 'vitest'
import { openKafkaLog } from '#engines/event-log/kafka.ts'
import type { EventLog } from '#engines/event-log/port.ts'

export async function openTestLog(brokers: string[], clientId: string): Promise<EventLog> {
  const log = await openKafkaLog({
    brokers,
    clientId,
    log: pino({ level: process.env.LOG_LEVEL ?? 'silent' }),
  })
  onTestFinished(() => log.close())
  return log
}
