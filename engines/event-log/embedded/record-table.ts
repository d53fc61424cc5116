/**
 * What the threads of the log ask of a partition's table; `table-kinds.ts` has the two ways in which one is laid out.
 */

import type { BlockCursor } from './record-block.ts'

/** What the writing thread does with the records of one partition. */
export interface RecordTable {
  /** The last record; null when there is none. */
  last(): { offset: number; timestamp: number } | null
  /** Inserts the next `count` records of the cursor from offset `first` on, inside of the caller's transaction. */
  insert(cursor: BlockCursor, count: number, first: number): void
  /** The first offset from `start` on whose record is not older than `cutoff` (ms since 1970); the end when all are. */
  findUnexpired(start: number, cutoff: number): Promise<number>
  /** Removes a slice of what is wholly below `start`, in one transaction; false when nothing is. */
  purge(start: number): boolean
}

/** Up to `bytesMax` of records from `position` on, but always one when there is one. */
export type FetchRecords = (position: number, bytesMax: number) => { records: number; block: ArrayBuffer }
