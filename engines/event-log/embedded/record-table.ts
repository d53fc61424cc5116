/** How the records of one partition lie in the file: one row each where compaction picks among them, elsewhere many in one. */

import type { DatabaseSync } from 'node:sqlite'
import * as batches from './record-batches.ts'
import type { BlockCursor } from './record-block.ts'
import * as rows from './record-rows.ts'

/** What the writing thread does with them. */
export interface RecordTable {
  /** Behind the last record; 0 when there is none. */
  end(): number
  /** Inserts the next `count` records of the cursor from offset `first` on, inside of the caller's transaction. */
  insert(cursor: BlockCursor, count: number, first: number): void
  /** The first offset from `start` on whose record is not older than `cutoff` (ms since 1970); the end when all are. */
  findUnexpired(start: number, cutoff: number): Promise<number>
  /** Removes a slice of what lies wholly below `start`, in one transaction; false when nothing does. */
  purge(start: number): boolean
}

/** Up to `bytesMax` of records from `position` on, but always one when there is one. */
export type FetchRecords = (position: number, bytesMax: number) => { records: number; block: ArrayBuffer }

/** As `partitions.kind` says it, for ever: what was laid one way stays so. */
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
