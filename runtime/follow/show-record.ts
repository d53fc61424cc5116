/** Shows a stored record to people: decoded by its topic's schema, with the size of byte fields instead of their content. */

import type { StoredRecord } from '#engines/event-log/port.ts'
import { describeError, isUnavailable } from '#lib/errors.ts'
import type { Topic } from '#topics/topic.ts'
import type { Codec } from '../publish/messages.ts'

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

interface ShowOptions {
  /** How byte fields appear: as their size (default), or as base64. */
  bytes?: 'size' | 'base64'
  /** Rejects while the registry is away, instead of showing the record with that fault. */
  wholly?: boolean
}

/** Rejects with AppError `registry_unavailable` where that is asked for. */
export async function showRecord(
  codec: Codec,
  topic: Topic,
  record: StoredRecord,
  { bytes = 'size', wholly = false }: ShowOptions = {},
): Promise<ShownRecord> {
  const shown = {
    partition: record.partition,
    offset: record.offset,
    timestamp: new Date(record.timestamp).toISOString(),
    key: record.key?.toString('utf8') ?? null,
    headers: record.headers,
  }
  try {
    const message = await codec.decode(topic, record)
    return { ...shown, value: withBytes(message.value, bytes === 'base64' ? base64Of : sizeOf) }
  } catch (error) {
    if (wholly && isUnavailable(error)) throw error
    return { ...shown, value: sizeOf(record.value), fault: describeError(error) }
  }
}

function withBytes(value: unknown, show: (bytes: Buffer) => unknown): unknown {
  if (Buffer.isBuffer(value)) return show(value)
  if (value === null || typeof value !== 'object') return value
  return Object.fromEntries(Object.entries(value).map(([name, field]) => [name, withBytes(field, show)]))
}

function base64Of(bytes: Buffer): string {
  return bytes.toString('base64')
}

function sizeOf(bytes: Buffer | null): string | null {
  return bytes === null ? null : `<${bytes.length} bytes>`
}
