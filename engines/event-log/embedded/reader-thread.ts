/** The thread that reads the file of the log, so that no reader waits for a disk sync. */

import { firstRow } from '#lib/sqlite.ts'
import { ownData, serveWorker, Transferred } from '#lib/worker-rpc.ts'
import { openForReading } from './log-file.ts'
import { type FetchRecords, type Kind, openRecordReader } from './record-tables.ts'

export interface ReaderData {
  file: string
}

/** `gone`: the partition was deleted. Without records nothing is left at or behind the position. */
export type Fetched = { gone: true } | { gone: false; start: number; records: number; block: ArrayBuffer }

const db = openForReading(ownData<ReaderData>().file)
const select = db.prepare('select start, kind from partitions where id = ?')
const selectWeighed = db.prepare('select start, kind, compacted_to, clean_rows from partitions where id = ?')
const readers = new Map<number, FetchRecords>()

/** Records weighed at each end of a partition to estimate its size. */
const sampleRecords = 200
const sampleBytes = 65_536

interface WeighedPartition {
  start: number
  kind: Kind
  compacted_to: number
  clean_rows: number
}

function readerOf(id: number, kind: Kind): FetchRecords {
  const known = readers.get(id)
  if (known) return known
  const reader = openRecordReader(db, id, kind)
  readers.set(id, reader)
  return reader
}

/** Reads up to `bytesMax`, but always one record. Both start and records come from one snapshot. */
function fetch(id: number, position: number, bytesMax: number): Transferred<Fetched> {
  db.exec('begin')
  try {
    const found = firstRow<{ start: number; kind: Kind }>(select, id)
    if (!found) {
      readers.delete(id)
      return new Transferred<Fetched>({ gone: true }, [])
    }
    const { start, kind } = found
    if (position < start) {
      return new Transferred<Fetched>({ gone: false, start, records: 0, block: new ArrayBuffer(0) }, [])
    }
    const { records, block } = readerOf(id, kind)(position, bytesMax)
    return new Transferred<Fetched>({ gone: false, start, records, block }, [block])
  } finally {
    db.exec('commit')
  }
}

/** What some records at either end of a partition weigh, times the number of all; null: the partition was deleted. */
function weigh(id: number, end: number): number | null {
  const found = firstRow<WeighedPartition>(selectWeighed, id)
  if (!found) return null
  const { start, kind, compacted_to, clean_rows } = found
  if (end <= start) return 0
  // Below compacted_to only so many are left.
  const count = kind === 'rows' ? clean_rows + Math.max(0, end - Math.max(start, compacted_to)) : end - start
  const samples = [start, Math.max(start, end - sampleRecords)].map((position) =>
    readerOf(id, kind)(position, sampleBytes),
  )
  const records = samples.reduce((sum, sample) => sum + sample.records, 0)
  const bytes = samples.reduce((sum, sample) => sum + sample.block.byteLength, 0)
  return records === 0 ? 0 : Math.round((bytes / records) * count)
}

const handlers = {
  fetch,
  weigh,
  ping: () => db.prepare('select 1').get() !== undefined,
  /** Copies commits from the WAL into the file while the writer goes on. */
  checkpoint(): void {
    db.exec('pragma wal_checkpoint(passive)')
  },
  close(): void {
    readers.clear()
    db.close()
  },
}

export type ReaderHandlers = typeof handlers

serveWorker(handlers)
