/** Records in, one ArrayBuffer out, and back: how many records cross a thread border as one. */

import type { NewRecord, StoredRecord } from '../port.ts'

/** Numbers in front of the bytes, five a record: offset, timestamp, length of key, value and headers (-1 is null). */
const fields = 5
const fieldBytes = 8 * fields

/** A record whose headers are already text (JSON, empty for none). */
export interface PreparedRecord {
  key: Uint8Array | null
  value: Uint8Array | null
  headers: string
}

/** What a record weighs: key, value and headers. */
export function weigh(record: PreparedRecord): number {
  return (record.key?.length ?? 0) + (record.value?.length ?? 0) + Buffer.byteLength(record.headers)
}

export function prepare(record: NewRecord): PreparedRecord {
  let headers = ''
  for (const _ in record.headers) {
    headers = JSON.stringify(record.headers)
    break
  }
  return { key: record.key, value: record.value, headers }
}

/** Packs records; `bytes` is the sum of their weights. Offsets are filled in by whoever knows them. */
export function packPrepared(records: PreparedRecord[], bytes: number, timestamp: number): ArrayBuffer {
  const block = new ArrayBuffer(records.length * fieldBytes + bytes)
  const numbers = new Float64Array(block, 0, records.length * fields)
  const target = Buffer.from(block)
  let at = records.length * fieldBytes
  let field = 0
  for (const { key, value, headers } of records) {
    numbers[field + 1] = timestamp
    numbers[field + 2] = key?.length ?? -1
    numbers[field + 3] = value?.length ?? -1
    if (key) target.set(key, at)
    at += key?.length ?? 0
    if (value) target.set(value, at)
    at += value?.length ?? 0
    const length = headers === '' ? 0 : target.write(headers, at)
    numbers[field + 4] = length
    at += length
    field += fields
  }
  return block
}

/** A row as the file holds it: offset, timestamp, key, headers, value. */
export type Row = [
  number,
  number,
  Uint8Array | null,
  Uint8Array | null,
  Uint8Array | null,
  ...rest: unknown[],
]

/** Packs rows; `bytes` is the sum of the lengths of their key, headers and value. */
export function packRows(rows: Row[], bytes: number): ArrayBuffer {
  const block = new ArrayBuffer(rows.length * fieldBytes + bytes)
  const numbers = new Float64Array(block, 0, rows.length * fields)
  const target = new Uint8Array(block)
  let at = rows.length * fieldBytes
  let field = 0
  for (const [offset, timestamp, key, headers, value] of rows) {
    numbers[field] = offset
    numbers[field + 1] = timestamp
    numbers[field + 2] = key?.length ?? -1
    numbers[field + 3] = value?.length ?? -1
    numbers[field + 4] = headers?.length ?? 0
    for (const part of [key, value, headers]) {
      if (!part) continue
      target.set(part, at)
      at += part.length
    }
    field += fields
  }
  return block
}

/** Walks over a packed block: each call of `next` gives the parts of the next record, as views of the block. */
export interface BlockCursor {
  next(): {
    offset: number
    timestamp: number
    key: Buffer | null
    value: Buffer | null
    headers: Buffer | null
  }
  /** Passes over records without looking at them. */
  skip(count: number): void
  /** Another cursor at the same place. */
  fork(): BlockCursor
}

/** A cursor at the first of all the `records` of a block. */
export function createCursor(block: ArrayBuffer, records: number): BlockCursor {
  const numbers = new Float64Array(block, 0, records * fields)
  return cursorAt(numbers, Buffer.from(block), 0, records * fieldBytes)
}

function cursorAt(numbers: Float64Array, bytes: Buffer, firstField: number, firstByte: number): BlockCursor {
  let field = firstField
  let at = firstByte
  function take(length: number): Buffer | null {
    if (length < 0) return null
    at += length
    return bytes.subarray(at - length, at)
  }
  return {
    next() {
      const start = field
      field += fields
      return {
        offset: numbers[start]!,
        timestamp: numbers[start + 1]!,
        key: take(numbers[start + 2]!),
        value: take(numbers[start + 3]!),
        headers: take(numbers[start + 4]! || -1),
      }
    },
    skip(count) {
      for (const end = field + count * fields; field < end; field += fields) {
        at += Math.max(numbers[field + 2]!, 0) + Math.max(numbers[field + 3]!, 0) + numbers[field + 4]!
      }
    },
    fork: () => cursorAt(numbers, bytes, field, at),
  }
}

/** The next `count` records of one partition; with `first` given, offsets are counted up from it. */
export function takeRecords(
  cursor: BlockCursor,
  count: number,
  partition: number,
  first?: number,
): StoredRecord[] {
  const records: StoredRecord[] = new Array(count)
  for (let i = 0; i < count; i++) {
    const { offset, timestamp, key, value, headers } = cursor.next()
    records[i] = {
      partition,
      offset: first === undefined ? offset : first + i,
      timestamp,
      key,
      value,
      headers: headers ? JSON.parse(headers.toString()) : {},
    }
  }
  return records
}

/** Offset of the last of `count` packed rows. */
export function lastOffset(block: ArrayBuffer, count: number): number {
  return new Float64Array(block, 0, count * fields)[(count - 1) * fields]!
}
