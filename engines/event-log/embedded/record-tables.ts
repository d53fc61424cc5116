/**
 * The tables that hold the records of the partitions, in two layouts: a row for each record where compaction picks among
 * records, a row for many records, as they were appended, everywhere else: a row costs the same for one as for hundreds.
 */

import type { DatabaseSync, StatementSync } from 'node:sqlite'
import { setImmediate } from 'node:timers/promises'
import { allRows, eachRow, firstRow, inTransaction } from '#lib/sqlite.ts'
import { type BlockCursor, fieldBytes, fields, type PackedBatch, partsOfRecord } from './record-block.ts'

/** Records in one block that is read, so that unpacking never holds the event loop for long. */
const recordsPerFetchMax = 2_048
/** Removed in one transaction at most: appends wait for no more than this. */
const sliceBytesMax = 1_048_576
const sliceRowsMax = 200
/** Rows looked at before other work of the thread gets its turn. */
const rowsPerLook = 1_000
/** A row of batches ends here (a larger record has one of its own), so that reading one of its records reads little else. */
const rowBytesMax = 65_536
const rowRecordsMax = 1_024

/** The column `partitions.kind`. It never changes: a table keeps the layout that it was made with. */
export type Kind = 'rows' | 'batches'

/** Name of the table that holds the records of the partition with this id. */
export const nameOf = (id: number): string => `p${id}`

/** What the writing thread does with the records of one partition. */
export interface RecordTable {
  /** The last record; null when there is none. */
  last(): { offset: number; timestamp: number } | null
  /** Inserts the next `count` records of the cursor from offset `first` on, inside of the caller's transaction. */
  insert(cursor: BlockCursor, count: number, first: number): void
  /** The first offset from `start` on whose record is not older than `cutoff` (ms since 1970); the end when all are. */
  findUnexpired(start: number, cutoff: number): Promise<number>
  /** Removes a slice of blocks wholly below `start`, in one transaction; false when there are none. */
  purge(start: number): boolean
}

/** Up to `bytesMax` of records from `position` on, but always one when there is one. */
export type FetchRecords = (position: number, bytesMax: number) => { records: number; block: ArrayBuffer }

export function createRecordTable(db: DatabaseSync, id: number, kind: Kind): void {
  db.exec(kind === 'rows' ? rowsTable(nameOf(id)) : batchesTable(nameOf(id)))
}

export function openRecordTable(db: DatabaseSync, id: number, kind: Kind): RecordTable {
  return kind === 'rows' ? writeRows(db, nameOf(id)) : writeBatches(db, nameOf(id))
}

export function openRecordReader(db: DatabaseSync, id: number, kind: Kind): FetchRecords {
  return kind === 'rows' ? readRows(db, nameOf(id)) : readBatches(db, nameOf(id))
}

/** The value comes last, so that walking over keys and times does not touch it. */
const rowsTable = (name: string): string =>
  `create table ${name} (o integer primary key, ts integer not null, key blob, headers blob, value blob) strict`

function writeRows(db: DatabaseSync, name: string): RecordTable {
  const insert = db.prepare(`insert into ${name} (o, ts, key, headers, value) values (?, ?, ?, ?, ?)`)
  return {
    last() {
      const select = db.prepare(`select o as offset, ts as timestamp from ${name} order by o desc limit 1`)
      return firstRow<{ offset: number; timestamp: number }>(select) ?? null
    },
    insert(cursor, count, first) {
      for (let i = 0; i < count; i++) {
        const { timestamp, key, value, headers } = cursor.next()
        insert.run(first + i, timestamp, key, headers, value)
      }
    },
    findUnexpired(start, cutoff) {
      const select = db.prepare(
        `select o as first, o as last, ts from ${name} where o >= ? order by o limit ${rowsPerLook}`,
      )
      return findUnexpired(select, start, cutoff)
    },
    purge(start) {
      const lowest = db.prepare(`select min(o) as o from ${name}`).get()?.o as number | null
      if (lowest === null || lowest >= start) return false
      const remove = `delete from ${name} where o in (select o from ${name} where o < ? order by o limit ${sliceRowsMax})`
      inTransaction(db, () => db.prepare(remove).run(start))
      return true
    },
  }
}

/** SQLite joins blobs byte by byte, and calls the result a text without the cast: one buffer a row, not three. */
const columns = `o, ts, length(key), length(value), length(headers),
  cast(coalesce(key, x'') || coalesce(value, x'') || coalesce(headers, x'') as blob)`

function readRows(db: DatabaseSync, name: string): FetchRecords {
  const select = db.prepare(
    `select ${columns} from ${name} where o >= ? order by o limit ${recordsPerFetchMax}`,
  )
  select.setReturnArrays(true)
  return (position, bytesMax) => {
    const batches: Batch[] = []
    let size = 0
    for (const [first, timestamp, key, value, headers, bytes] of eachRow<Row>(select, position)) {
      if (batches.length > 0 && size + bytes.length > bytesMax) break
      const lengths = Int32Array.of(key ?? -1, value ?? -1, headers ?? 0)
      batches.push({ first, records: 1, timestamp, lengths, bytes })
      size += bytes.length
    }
    return { records: batches.length, block: packBatches(batches, batches.length, size) }
  }
}

/** Lengths are null where a part is; `bytes` are all three in that order. */
type Row = [
  offset: number,
  timestamp: number,
  keyBytes: number | null,
  valueBytes: number | null,
  headersBytes: number | null,
  bytes: Uint8Array,
]

/**
 * Keyed by its last record: the first row at or behind a position is the one that holds it. `lengths` are three int32
 * of each record (key, value, headers; -1 is null), in the byte order of the machine; `bytes` are its parts in that
 * order.
 */
const batchesTable = (name: string): string =>
  `create table ${name} (
    last integer primary key, first integer not null, ts integer not null, lengths blob not null, bytes blob not null
  ) strict`

function writeBatches(db: DatabaseSync, name: string): RecordTable {
  const insert = db.prepare(`insert into ${name} values (?, ?, ?, ?, ?)`)
  return {
    last() {
      const select = db.prepare(
        `select last as offset, ts as timestamp from ${name} order by last desc limit 1`,
      )
      return firstRow<{ offset: number; timestamp: number }>(select) ?? null
    },
    insert(cursor, count, first) {
      for (let at = first, left = count; left > 0; ) {
        const { records, timestamp, lengths, bytes } = cursor.batch(
          Math.min(left, rowRecordsMax),
          rowBytesMax,
        )
        insert.run(at + records - 1, at, timestamp, lengths, bytes)
        at += records
        left -= records
      }
    },
    findUnexpired(start, cutoff) {
      const select = db.prepare(
        `select first, last, ts from ${name} where last >= ? order by last limit ${rowsPerLook}`,
      )
      return findUnexpired(select, start, cutoff)
    },
    purge(start) {
      const through = endOfSlice(db, name, start)
      if (through === null) return false
      inTransaction(db, () => db.prepare(`delete from ${name} where last <= ?`).run(through))
      return true
    },
  }
}

/** Last offset of the rows that one transaction removes; null when none is wholly below `start`. */
function endOfSlice(db: DatabaseSync, name: string, start: number): number | null {
  const select = db.prepare(
    `select last, length(lengths) + length(bytes) as size from ${name} where last < ? order by last limit ${sliceRowsMax}`,
  )
  let through: number | null = null
  let bytes = 0
  for (const row of eachRow<{ last: number; size: number }>(select, start)) {
    bytes += row.size
    if (through !== null && bytes > sliceBytesMax) break
    through = row.last
  }
  return through
}

type BatchRow = [first: number, timestamp: number, lengths: Uint8Array, bytes: Uint8Array]

function readBatches(db: DatabaseSync, name: string): FetchRecords {
  const select = db.prepare(
    `select first, ts, lengths, bytes from ${name} where last >= ? order by last limit ${recordsPerFetchMax}`,
  )
  select.setReturnArrays(true)
  return (position, bytesMax) => {
    const batches: Batch[] = []
    let [records, bytes] = [0, 0]
    for (const row of eachRow<BatchRow>(select, position)) {
      const whole = batchOf(row)
      let batch = cutBatch(whole, position, recordsPerFetchMax - records, bytesMax - bytes)
      if (batch.records === 0) {
        if (records > 0) break
        // A record larger than the requested size.
        batch = cutBatch(whole, position, 1, Number.POSITIVE_INFINITY)
      }
      batches.push(batch)
      records += batch.records
      bytes += batch.bytes.length
      if (batch.first + batch.records < whole.first + whole.records) break
    }
    return { records, block: packBatches(batches, records, bytes) }
  }
}

function batchOf([first, timestamp, lengths, bytes]: BatchRow): Batch {
  const numbers = new Int32Array(lengths.buffer, lengths.byteOffset, lengths.byteLength / 4)
  return { first, records: numbers.length / 3, timestamp, lengths: numbers, bytes }
}

export interface Batch extends PackedBatch {
  /** Offset of the first record; the others follow without a gap. */
  first: number
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
      for (let part = 0; part < partsOfRecord; part++)
        numbers[field + 2 + part] = lengths[i * partsOfRecord + part]!
      field += fields
    }
    target.set(batch.bytes, at)
    at += batch.bytes.length
  }
  return block
}

/** The records of a batch at or behind `position`, as many as fit into `recordsMax` and `bytesMax`; maybe none. */
function cutBatch(batch: Batch, position: number, recordsMax: number, bytesMax: number): Batch {
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
    lengths: lengths.subarray(from * partsOfRecord, to * partsOfRecord),
    bytes: batch.bytes.subarray(fromByte, toByte),
  }
}

function weighLengths(lengths: Int32Array, from: number, to: number): number {
  let bytes = 0
  for (let at = from * partsOfRecord; at < to * partsOfRecord; at++) bytes += Math.max(lengths[at]!, 0)
  return bytes
}

/**
 * `select` gives `rowsPerLook` rows from the one that holds an offset on: offsets of their first and last record, and
 * their time.
 */
async function findUnexpired(select: StatementSync, start: number, cutoff: number): Promise<number> {
  let at = start
  for (;;) {
    const rows = allRows<{ first: number; last: number; ts: number }>(select, at)
    const kept = rows.find((row) => row.ts >= cutoff)
    if (kept) return Math.max(kept.first, start)
    if (rows.length === 0) return at
    at = rows.at(-1)!.last + 1
    await setImmediate()
  }
}
