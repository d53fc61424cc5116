/**
 * The table layout that keeps many records in one row, as they were appended: a row costs the same for one record as
 * for hundreds.
 */

import type { DatabaseSync } from 'node:sqlite'
import { eachRow, firstRow } from '#lib/sqlite-rows.ts'
import { inTransaction } from '#lib/sqlite-transaction.ts'
import { findUnexpired, rowsPerLook } from './find-unexpired.ts'
import { type Batch, cutBatch, packBatches, recordsPerFetchMax } from './record-block.ts'
import type { FetchRecords, RecordTable } from './record-table.ts'

/** A row ends here (a larger record has one of its own), so that reading one of its records reads little else. */
const rowBytesMax = 65_536
const rowRecordsMax = 1_024
/** Removed in one transaction at most: appends wait for no more than this. */
const sliceBytesMax = 1_048_576
const sliceRowsMax = 200

/**
 * Keyed by its last record: the first row at or behind a position is the one that holds it. `lengths` are three int32
 * of each record (key, value, headers; -1 is null), in the byte order of the machine; `bytes` are its parts in that
 * order.
 */
export const tableOf = (name: string): string =>
  `create table ${name} (
    last integer primary key, first integer not null, ts integer not null, lengths blob not null, bytes blob not null
  ) strict`

export function openForWriting(db: DatabaseSync, name: string): RecordTable {
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

type Row = [first: number, timestamp: number, lengths: Uint8Array, bytes: Uint8Array]

export function openForReading(db: DatabaseSync, name: string): FetchRecords {
  const select = db.prepare(
    `select first, ts, lengths, bytes from ${name} where last >= ? order by last limit ${recordsPerFetchMax}`,
  )
  select.setReturnArrays(true)
  return (position, bytesMax) => {
    const batches: Batch[] = []
    let [records, bytes] = [0, 0]
    for (const row of eachRow<Row>(select, position)) {
      const whole = batchOf(row)
      let batch = cutBatch(whole, position, recordsPerFetchMax - records, bytesMax - bytes)
      if (batch.records === 0) {
        if (records > 0) break
        // A record larger than what was asked for.
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

function batchOf([first, timestamp, lengths, bytes]: Row): Batch {
  const numbers = new Int32Array(lengths.buffer, lengths.byteOffset, lengths.byteLength / 4)
  return { first, records: numbers.length / 3, timestamp, lengths: numbers, bytes }
}
