/** What a topic's stream shows of a record, which records a filter means, and where it cuts. */

import type { StoredRecord } from '#engines/event-log/port.ts'
import { type ShownRecord, showRecord } from '#runtime/follow/show-record.ts'
import type { Codec } from '#runtime/publish/messages.ts'
import type { Topic } from '#topics/topic.ts'

/** Characters of a value's JSON, and of a key or one header. */
export const valueLengthMax = 8_192
const labelLengthMax = 1_024
const headersMax = 50

export interface RecordFilter {
  partition?: number
  /** Exactly this record key. */
  key?: string
  /** A header with exactly this value. */
  header?: { name: string; value: string }
  /** Found in the key, a header or the value's JSON, in any case. */
  q?: string
}

/** A record as it is shown; `cut` names the length of a value of which only the beginning is shown, as text. */
export type StreamedRecord = ShownRecord & { cut?: { length: number } }

/** What can be said without decoding it. */
export function mayBeWanted({ partition, key, header }: RecordFilter, record: StoredRecord): boolean {
  // There is nothing to read at its offset.
  if (record.hidden) return false
  if (partition !== undefined && record.partition !== partition) return false
  if (key !== undefined && record.key?.toString('utf8') !== key) return false
  return header === undefined || record.headers[header.name] === header.value
}

/** The record decoded and cut; null when it does not hold what `q` asks for. */
export async function showWanted(
  { codec, topic }: { codec: Codec; topic: Topic },
  { q }: RecordFilter,
  record: StoredRecord,
): Promise<StreamedRecord | null> {
  const shown = await showRecord(codec, topic, record)
  const json = JSON.stringify(shown.value) ?? 'null'
  if (q !== undefined && !holds(shown, json, q.toLowerCase())) return null
  const headers = Object.entries(shown.headers)
    .slice(0, headersMax)
    .map(([name, value]) => [name.slice(0, labelLengthMax), value.slice(0, labelLengthMax)])
  const key = shown.key?.slice(0, labelLengthMax) ?? null
  const whole = { ...shown, key, headers: Object.fromEntries(headers) }
  if (json.length <= valueLengthMax) return whole
  return { ...whole, value: json.slice(0, valueLengthMax), cut: { length: json.length } }
}

function holds({ key, headers }: ShownRecord, json: string, q: string): boolean {
  const texts = [key ?? '', ...Object.values(headers), json]
  return texts.some((text) => text.toLowerCase().includes(q))
}
