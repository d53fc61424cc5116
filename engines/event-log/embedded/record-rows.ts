/** The table layout that keeps each record in a row of its own, for topics where compaction picks among records. */

import type { DatabaseSync } from 'node:sqlite'
import { eachRow, firstRow } from '#lib/sqlite-rows.ts'
import { inTransaction } from '#lib/sqlite-transaction.ts'
import { findUnexpired, rowsPerLook } from './find-unexpired.ts'
import { packRows, type Row, recordsPerFetchMax } from './record-block.ts'
import type { FetchRecords, RecordTable } from './record-table.ts'

/** Rows removed in one transaction: appends wait for no more than this. */
const rowsPerSlice = 200

/** The value comes last, so that walking over keys and times does not touch it. */
export const tableOf = (name: string): string =>
  `create table ${name} (o integer primary key, ts integer not null, key blob, headers blob, value blob) strict`

export function openForWriting(db: DatabaseSync, name: string): RecordTable {
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
      const remove = `delete from ${name} where o in (select o from ${name} where o < ? order by o limit ${rowsPerSlice})`
      inTransaction(db, () => db.prepare(remove).run(start))
      return true
    },
  }
}

/** SQLite joins blobs byte by byte, and calls the result a text without the cast: one buffer a row, not three. */
const columns = `o, ts, length(key), length(value), length(headers),
  cast(coalesce(key, x'') || coalesce(value, x'') || coalesce(headers, x'') as blob)`

export function openForReading(db: DatabaseSync, name: string): FetchRecords {
  const select = db.prepare(
    `select ${columns} from ${name} where o >= ? order by o limit ${recordsPerFetchMax}`,
  )
  select.setReturnArrays(true)
  return (position, bytesMax) => {
    const rows: Row[] = []
    let bytes = 0
    for (const row of eachRow<Row>(select, position)) {
      const size = row[5].length
      if (rows.length > 0 && bytes + size > bytesMax) break
      rows.push(row)
      bytes += size
    }
    return { records: rows.length, block: packRows(rows, bytes) }
  }
}
