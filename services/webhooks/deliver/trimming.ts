/** Deletes settled records of webhooks.deliveries, but for the last ones, whose event ids are needed to drop repeats. */

import type { Logger } from 'pino'
import type { Log, LogAdmin } from '#engines/event-log/port.ts'
import { describeError } from '#lib/errors.ts'
import type { PartitionReading } from '#runtime/consume/consumer.ts'
import { ringIdsMax } from '#runtime/consume/limits.ts'

/** Fewer records than these are not worth a call. */
const trimRecordsMin = 1_024

/** Deletes settled records of these partitions beyond the last `kept` (default: as many ids as are read back). */
export async function trimDelivered(
  {
    eventLog,
    topic,
    log,
  }: { eventLog: Pick<Log & LogAdmin, 'offsets' | 'deleteRecords'>; topic: string; log: Logger },
  readings: readonly PartitionReading[],
  kept = ringIdsMax,
): Promise<number> {
  if (readings.every(({ committed }) => committed < kept + trimRecordsMin)) return 0
  const starts = new Map((await eventLog.offsets(topic)).map(({ partition, start }) => [partition, start]))
  let trimmed = 0
  for (const { partition, committed } of readings) {
    const before = committed - kept
    const records = before - (starts.get(partition) ?? before)
    if (records < trimRecordsMin) continue
    try {
      await eventLog.deleteRecords(topic, partition, before)
      trimmed += records
    } catch (error) {
      log.warn({ partition, reason: describeError(error) }, 'webhooks.trim-failing')
    }
  }
  if (trimmed > 0) log.info({ trimmed }, 'webhooks.trimmed')
  return trimmed
}
