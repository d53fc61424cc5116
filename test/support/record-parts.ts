/** The parts of a stored record as plain data, which drivers make only when they are asked for. */

import type { StoredRecord } from '#engines/event-log/port.ts'

export function recordParts({ partition, offset, timestamp, key, value, headers }: StoredRecord) {
  return { partition, offset, timestamp, key, value, headers }
}
