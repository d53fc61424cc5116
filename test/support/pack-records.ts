/** Records of one append in, the block that crosses to the log's threads out. */

import { packPrepared, prepare, weigh } from '#engines/event-log/embedded/record-block.ts'
import type { NewRecord } from '#engines/event-log/port.ts'

export function packRecords(records: NewRecord[], timestamp: number): ArrayBuffer {
  const prepared = records.map(prepare)
  const bytes = prepared.reduce((sum, one) => sum + weigh(one), 0)
  return packPrepared(prepared, bytes, timestamp)
}
