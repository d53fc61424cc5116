/** kafkajs's messages into the port's records. */

import type { IHeaders, KafkaMessage } from 'kafkajs'
import type { StoredRecord } from '../port.ts'

export function storedRecord(partition: number, message: KafkaMessage): StoredRecord {
  return {
    partition,
    offset: Number(message.offset),
    timestamp: Number(message.timestamp),
    key: message.key,
    value: message.value,
    headers: message.headers ? textHeaders(message.headers) : {},
  }
}

/** Of a header that occurs several times the last one counts. */
function textHeaders(headers: IHeaders): Record<string, string> {
  const texts: Record<string, string> = {}
  for (const name in headers) {
    const value = headers[name]
    const last = Array.isArray(value) ? value.at(-1) : value
    texts[name] = last === undefined ? '' : last.toString()
  }
  return texts
}
