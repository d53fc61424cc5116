/** A stored record in, its parts as plain data out: drivers make them only when they are asked for. */

import type { StoredRecord } from '#engines/event-log/port.ts'

export function recordParts({ partition, offset, timestamp, key, value, headers }: StoredRecord) {
  return { partition, offset, timestamp, key, value, headers }
}
