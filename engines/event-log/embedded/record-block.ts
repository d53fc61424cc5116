/** Records in, one ArrayBuffer out, and back: how many records cross a thread border as one. */

import type { NewRecord, StoredRecord } from '../port.ts'
import { BlockRecord, fields, weightAt } from './block-record.ts'

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

/**
 * A row as the reading thread asks for it: offset, timestamp, lengths of key, value and headers (null where there is
 * none), and the bytes of all three, one behind the other: one buffer for a row, not three.
 */
export type Row = [
  offset: number,
  timestamp: number,
  keyBytes: number | null,
  valueBytes: number | null,
  headersBytes: number | null,
  bytes: Uint8Array,
]

/** The columns of a Row. SQLite joins blobs byte by byte, and calls the result a text until it is told otherwise. */
export const rowColumns = `o, ts, length(key), length(value), length(headers),
  cast(coalesce(key, x'') || coalesce(value, x'') || coalesce(headers, x'') as blob)`

/** Packs rows; `bytes` is the sum of their lengths. */
export function packRows(rows: Row[], bytes: number): ArrayBuffer {
  const block = new ArrayBuffer(rows.length * fieldBytes + bytes)
  const numbers = new Float64Array(block, 0, rows.length * fields)
  const target = new Uint8Array(block)
  let at = rows.length * fieldBytes
  let field = 0
  for (const [offset, timestamp, keyBytes, valueBytes, headersBytes, parts] of rows) {
    numbers[field] = offset
    numbers[field + 1] = timestamp
    numbers[field + 2] = keyBytes ?? -1
    numbers[field + 3] = valueBytes ?? -1
    numbers[field + 4] = headersBytes ?? 0
    target.set(parts, at)
    at += parts.length
    field += fields
  }
  return block
}

/** Walks over a packed block: each call of `next` gives the parts of the next record, as views of the block. */
export interface BlockCursor {
  next(): {
    timestamp: number
    key: Buffer | null
    value: Buffer | null
    headers: Buffer | null
  }
  /** The next record as its readers get it; `offset` where the block does not know it. */
  record(partition: number, offset?: number): StoredRecord
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
        timestamp: numbers[start + 1]!,
        key: take(numbers[start + 2]!),
        value: take(numbers[start + 3]!),
        headers: take(numbers[start + 4]! || -1),
      }
    },
    record(partition, offset = numbers[field]!) {
      const record = new BlockRecord(partition, offset, numbers, bytes, field, at)
      at += weightAt(numbers, field)
      field += fields
      return record
    },
    skip(count) {
      for (const end = field + count * fields; field < end; field += fields) at += weightAt(numbers, field)
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
    records[i] = cursor.record(partition, first === undefined ? undefined : first + i)
  }
  return records
}

/** Offset of the last of `count` packed rows. */
export function lastOffset(block: ArrayBuffer, count: number): number {
  return new Float64Array(block, 0, count * fields)[(count - 1) * fields]!
}
