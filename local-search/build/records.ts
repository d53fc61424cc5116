/** Records in, their stored form out: what a hit shows, and apart from it the body. */

import { createHash } from 'node:crypto'
import type { SearchRecord } from '../contract.ts'
import { noBody, recordHeadBytes } from '../format.ts'
import { crc32 } from './checksum.ts'

/** As given, or made from the path, or from the content where there is none. */
export function idOf(record: SearchRecord): string {
  if (record.id !== null) return record.id
  const content = record.path === '' ? JSON.stringify(record.source) : record.path
  return `STIDX001-${createHash('sha256').update(content).digest('hex').slice(0, 32)}`
}

/** {u32 checksum of what follows up to the body, u32 length of the head, u32 length of the body, u32 its checksum, head, body}. */
export function encodeRecord(id: string, source: SearchRecord['source']): Buffer {
  const { body, ...rest } = source
  const apart = typeof body === 'string'
  const named = { id }
  // First, and as the index knows it.
  const head = Buffer.from(JSON.stringify({ ...named, ...(apart ? rest : source), ...named }), 'utf8')
  const text = Buffer.from(apart ? body : '', 'utf8')
  const bytes = Buffer.allocUnsafe(recordHeadBytes + head.length + text.length)
  bytes.writeUInt32LE(head.length, 4)
  bytes.writeUInt32LE(apart ? text.length : noBody, 8)
  bytes.writeUInt32LE(crc32(text), 12)
  bytes.set(head, recordHeadBytes)
  bytes.set(text, recordHeadBytes + head.length)
  bytes.writeUInt32LE(crc32(bytes.subarray(4, recordHeadBytes + head.length)), 0)
  return bytes
}
