/** Encodes records as they are stored: what a hit shows, and the body apart from it. */

import { createHash } from 'node:crypto'
import type { SearchRecord } from '../contract.ts'
import { noBody, recordHeadBytes } from '../format.ts'
import { ByteWriter } from './byte-writer.ts'
import { crc32 } from './checksum.ts'

/** The most bytes that UTF-8 takes for one unit of UTF-16. */
const bytesPerUnitMax = 3
/** Larger records have a place of their own, of their very size, that is given up with them. */
const keptBytesMax = 1 << 20

/** The id as given, or made from the path, or from the content where there is no path. */
export function idOf(record: SearchRecord): string {
  if (record.id !== null) return record.id
  const content = record.path === '' ? JSON.stringify(record.source) : record.path
  return `STIDX001-${createHash('sha256').update(content).digest('hex').slice(0, 32)}`
}

/**
 * Makes {u32 checksum of all up to the body, u32 length of the head, u32 length of the body, u32 its checksum,
 * head, body}; what it returns is valid until the next record.
 */
export function createRecordEncoder(): (id: string, source: SearchRecord['source']) => Buffer {
  const out = new ByteWriter(1 << 14)
  function placeFor(head: string, body: string): Buffer {
    const bytesMax = recordHeadBytes + (head.length + body.length) * bytesPerUnitMax
    if (bytesMax > keptBytesMax) {
      return Buffer.allocUnsafe(recordHeadBytes + Buffer.byteLength(head) + Buffer.byteLength(body))
    }
    out.reserve(bytesMax)
    return out.bytes
  }
  return (id, source) => {
    const { body } = source
    const apart = typeof body === 'string'
    const head = headOf(id, source as Record<string, unknown>, apart)
    const bytes = placeFor(head, apart ? body : '')
    const headEnd = recordHeadBytes + bytes.write(head, recordHeadBytes, 'utf8')
    const end = headEnd + (apart ? bytes.write(body, headEnd, 'utf8') : 0)
    bytes.writeUInt32LE(headEnd - recordHeadBytes, 4)
    bytes.writeUInt32LE(apart ? end - headEnd : noBody, 8)
    bytes.writeUInt32LE(crc32(bytes.subarray(headEnd, end)), 12)
    bytes.writeUInt32LE(crc32(bytes.subarray(4, headEnd)), 0)
    return bytes.subarray(0, end)
  }
}

/** The id first, and as the index knows it; without the body where that is kept apart. */
function headOf(id: string, source: Record<string, unknown>, apart: boolean): string {
  const { body } = source
  if (apart && source.id === id && firstKeyOf(source) === 'id') {
    // JSON leaves out a field that is undefined, so no copy is needed. Most records come so.
    source.body = undefined
    const head = JSON.stringify(source)
    source.body = body
    return head
  }
  const { body: _, ...rest } = source
  const named = { id }
  return JSON.stringify({ ...named, ...(apart ? rest : source), ...named })
}

function firstKeyOf(source: object): string | undefined {
  for (const key in source) return key
  return undefined
}
