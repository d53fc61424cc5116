/** Packs the records of one append into the block that crosses to the threads of the log. */

import { packPrepared, prepare, weigh } from '#engines/event-log/embedded/record-block.ts'
import type { NewRecord } from '#engines/event-log/port.ts'

export function packRecords(records: NewRecord[], timestamp: number): ArrayBuffer {
  const prepared = records.map(prepare)
  const bytes = prepared.reduce((sum, one) => sum + weigh(one), 0)
  return packPrepared(prepared, bytes, timestamp)
}
