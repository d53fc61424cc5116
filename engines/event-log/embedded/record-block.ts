/** Packs many records into one ArrayBuffer and unpacks them, so that they cross a thread border as one. */

import type { NewRecord, StoredRecord } from '../port.ts'
import { BlockRecord, fields, weightAt } from './block-record.ts'

/** Records in one block that is read, so that unpacking never holds the event loop for long. */
export const recordsPerFetchMax = 2_048

const fieldBytes = 8 * fields
/** Of a record, each with a length. */
const parts = 3

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

/** Packs records; `bytes` is the sum of their weights. Offsets are filled in where they are known. */
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
 * A row of one record as the reading thread asks for it: lengths are null where a part is; `bytes` are all three in
 * that order.
 */
export type Row = [
  offset: number,
  timestamp: number,
  keyBytes: number | null,
  valueBytes: number | null,
  headersBytes: number | null,
  bytes: Uint8Array,
]

/** Packs rows; `bytes` is the sum of their lengths. */
export function packRows(rows: Row[], bytes: number): ArrayBuffer {
  const block = new ArrayBuffer(rows.length * fieldBytes + bytes)
  const numbers = new Float64Array(block, 0, rows.length * fields)
  const target = new Uint8Array(block)
  let at = rows.length * fieldBytes
  let field = 0
  for (const [offset, timestamp, keyBytes, valueBytes, headersBytes, whole] of rows) {
    numbers[field] = offset
    numbers[field + 1] = timestamp
    numbers[field + 2] = keyBytes ?? -1
    numbers[field + 3] = valueBytes ?? -1
    numbers[field + 4] = headersBytes ?? 0
    target.set(whole, at)
    at += whole.length
    field += fields
  }
  return block
}

/**
 * Records that were appended together: `lengths` are three numbers of each (key, value, headers; -1 is null), `bytes`
 * their parts.
 */
export interface Batch {
  /** Offset of the first record; the others follow without a gap. */
  first: number
  records: number
  timestamp: number
  lengths: Int32Array
  bytes: Uint8Array
}

/** Packs batches; `records` and `bytes` are their sums. */
export function packBatches(batches: Batch[], records: number, bytes: number): ArrayBuffer {
  const block = new ArrayBuffer(records * fieldBytes + bytes)
  const numbers = new Float64Array(block, 0, records * fields)
  const target = new Uint8Array(block)
  let at = records * fieldBytes
  let field = 0
  for (const batch of batches) {
    const { first, timestamp, lengths } = batch
    for (let i = 0; i < batch.records; i++) {
      numbers[field] = first + i
      numbers[field + 1] = timestamp
      for (let part = 0; part < parts; part++) numbers[field + 2 + part] = lengths[i * parts + part]!
      field += fields
    }
    target.set(batch.bytes, at)
    at += batch.bytes.length
  }
  return block
}

/** The records of a batch at or behind `position`, as many as fit into `recordsMax` and `bytesMax`; maybe none. */
export function cutBatch(batch: Batch, position: number, recordsMax: number, bytesMax: number): Batch {
  const { lengths } = batch
  const from = Math.max(0, position - batch.first)
  const fromByte = weighLengths(lengths, 0, from)
  let [to, toByte] = [from, fromByte]
  while (to < batch.records && to - from < recordsMax) {
    const end = toByte + weighLengths(lengths, to, to + 1)
    if (end - fromByte > bytesMax) break
    toByte = end
    to++
  }
  return {
    first: batch.first + from,
    records: to - from,
    timestamp: batch.timestamp,
    lengths: lengths.subarray(from * parts, to * parts),
    bytes: batch.bytes.subarray(fromByte, toByte),
  }
}

function weighLengths(lengths: Int32Array, from: number, to: number): number {
  let bytes = 0
  for (let at = from * parts; at < to * parts; at++) bytes += Math.max(lengths[at]!, 0)
  return bytes
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
  /**
   * The next records as they were packed: up to `recordsMax` (one or more), as long as they fit into `bytesMax`, but
   * always one.
   */
  batch(recordsMax: number, bytesMax: number): Omit<Batch, 'first'>
  /** Passes over records without looking at them. */
  skip(count: number): void
  /** Another cursor at the same record. */
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
    batch(recordsMax, bytesMax) {
      const [start, startByte] = [field, at]
      do {
        at += weightAt(numbers, field)
        field += fields
      } while (field - start < recordsMax * fields && at + weightAt(numbers, field) - startByte <= bytesMax)
      const records = (field - start) / fields
      const lengths = new Int32Array(records * parts)
      for (let i = 0; i < lengths.length; i++) {
        lengths[i] = numbers[start + Math.floor(i / parts) * fields + 2 + (i % parts)]!
      }
      return { records, timestamp: numbers[start + 1]!, lengths, bytes: bytes.subarray(startByte, at) }
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
