/** Shows a stored record to people: decoded by its topic's schema, with the size of byte fields instead of their content. */

import type { StoredRecord } from '#engines/event-log/port.ts'
import { describeError } from '#lib/errors.ts'
import type { Topic } from '#topics/topic.ts'
import type { Codec } from './messages.ts'

export interface ShownRecord {
  partition: number
  offset: number
  timestamp: string
  key: string | null
  headers: Record<string, string>
  /** null is a tombstone. */
  value: unknown
  /** Why the value could not be decoded. */
  fault?: string
}

export async function showRecord(codec: Codec, topic: Topic, record: StoredRecord): Promise<ShownRecord> {
  const shown = {
    partition: record.partition,
    offset: record.offset,
    timestamp: new Date(record.timestamp).toISOString(),
    key: record.key?.toString('utf8') ?? null,
    headers: record.headers,
  }
  try {
    const message = await codec.decode(topic, record)
    return { ...shown, value: withoutBytes(message.value) }
  } catch (error) {
    return { ...shown, value: sizeOf(record.value), fault: describeError(error) }
  }
}

function withoutBytes(value: unknown): unknown {
  if (Buffer.isBuffer(value)) return sizeOf(value)
  if (value === null || typeof value !== 'object') return value
  return Object.fromEntries(Object.entries(value).map(([name, field]) => [name, withoutBytes(field)]))
}

function sizeOf(bytes: Buffer | null): string | null {
  return bytes === null ? null : `<${bytes.length} bytes>`
}
