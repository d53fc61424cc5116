/**
 * Opens the table of a partition in one of two layouts: a row for each record where compaction picks among records,
 * a row for many records everywhere else.
 */

import type { DatabaseSync } from 'node:sqlite'
import * as batches from './record-batches.ts'
import * as rows from './record-rows.ts'
import type { FetchRecords, RecordTable } from './record-table.ts'

/** The column `partitions.kind`. It never changes: a table keeps the layout that it was made with. */
export type Kind = 'rows' | 'batches'

const kinds = { rows, batches }

/** Name of the table that holds the records of the partition with this id. */
export const nameOf = (id: number): string => `p${id}`

export function createRecordTable(db: DatabaseSync, id: number, kind: Kind): void {
  db.exec(kinds[kind].tableOf(nameOf(id)))
}

export function openRecordTable(db: DatabaseSync, id: number, kind: Kind): RecordTable {
  return kinds[kind].openForWriting(db, nameOf(id))
}

export function openRecordReader(db: DatabaseSync, id: number, kind: Kind): FetchRecords {
  return kinds[kind].openForReading(db, nameOf(id))
}
