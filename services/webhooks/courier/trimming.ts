/** Cuts webhooks.deliveries behind what is settled for good; what the event ids are read back from stays. */

import type { Logger } from 'pino'
import type { EventLog } from '#engines/event-log/port.ts'
import { describeError } from '#lib/errors.ts'
import { ringIdsMax } from '#runtime/consumer/limits.ts'
import type { PartitionReading } from '#runtime/consumer.ts'

/** Fewer records than these are not worth a call. */
const cutRecordsMin = 1_024

/** Deletes settled records of these partitions beyond the last `kept` (default: as many ids as are read back). */
export async function trimDelivered(
  {
    eventLog,
    topic,
    log,
  }: { eventLog: Pick<EventLog, 'offsets' | 'deleteRecords'>; topic: string; log: Logger },
  readings: readonly PartitionReading[],
  kept = ringIdsMax,
): Promise<number> {
  if (readings.every(({ committed }) => committed < kept + cutRecordsMin)) return 0
  const starts = new Map((await eventLog.offsets(topic)).map(({ partition, start }) => [partition, start]))
  let cut = 0
  for (const { partition, committed } of readings) {
    const before = committed - kept
    const records = before - (starts.get(partition) ?? before)
    if (records < cutRecordsMin) continue
    try {
      await eventLog.deleteRecords(topic, partition, before)
      cut += records
    } catch (error) {
      log.warn({ partition, reason: describeError(error) }, 'webhooks.trim-failed: it is tried again')
    }
  }
  if (cut > 0) log.info({ cut }, 'webhooks.trimmed')
  return cut
}
