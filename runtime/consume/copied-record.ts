/**
 * A record that waits, as a copy of its own. What a driver delivers is a view of all that was read with it (a block of
 * the embedded log, a fetch response of Kafka), and a single record that waits would keep that whole in memory.
 */

import type { StoredRecord } from '#engines/event-log/port.ts'

class CopiedRecord implements StoredRecord {
  readonly partition: number
  readonly offset: number
  readonly timestamp: number
  readonly key: Buffer | null
  readonly value: Buffer | null
  readonly headers: Record<string, string>
  readonly bytes: number

  constructor(record: StoredRecord) {
    const { key, value } = record
    this.partition = record.partition
    this.offset = record.offset
    this.timestamp = record.timestamp
    this.headers = record.headers
    const keyBytes = key?.length ?? 0
    const valueBytes = value?.length ?? 0
    this.bytes = record.bytes ?? keyBytes + valueBytes
    // Not of Node's pool, whose pieces are shared with whatever else was made at the time.
    const own = Buffer.from(new ArrayBuffer(keyBytes + valueBytes))
    this.key = key && own.subarray(0, keyBytes)
    this.value = value && own.subarray(keyBytes)
    if (key) own.set(key, 0)
    if (value) own.set(value, keyBytes)
  }

  headerBytes(name: string): Buffer | undefined {
    const text = Object.hasOwn(this.headers, name) ? this.headers[name] : undefined
    return text === undefined ? undefined : Buffer.from(text)
  }
}

/** The record itself when it is a copy already, or a hidden one, which is a view of nothing. */
export function copyOut(record: StoredRecord): StoredRecord {
  return record instanceof CopiedRecord || record.hidden ? record : new CopiedRecord(record)
}
