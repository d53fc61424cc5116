/** The thread that reads: a position in, a block of records out, so that no reader waits for a disk sync. */

import type { StatementSync } from 'node:sqlite'
import { ownData, serveWorker, Transferred } from '#lib/worker-rpc.ts'
import { openForReading, recordsTable } from './layout.ts'
import { packRows, type Row, rowColumns } from './record-block.ts'

/** Records in one block at most, so that unpacking never holds the event loop for long. */
const recordsPerFetchMax = 2_048

export interface ReaderData {
  file: string
}

/** `gone`: the partition was deleted. Without records nothing is left at or behind the position. */
export type Fetched = { gone: true } | { gone: false; start: number; records: number; block: ArrayBuffer }

const db = openForReading(ownData<ReaderData>().file)
const selectStart = db.prepare('select start from partitions where id = ?')
const selects = new Map<number, StatementSync>()

function selectOf(place: number): StatementSync {
  const known = selects.get(place)
  if (known) return known
  const select = db.prepare(
    `select ${rowColumns} from ${recordsTable(place)} where o >= ? order by o limit ${recordsPerFetchMax}`,
  )
  select.setReturnArrays(true)
  selects.set(place, select)
  return select
}

/** Reads up to `bytesMax`, but always one record. Start and records are of one moment. */
function fetch(place: number, position: number, bytesMax: number): Transferred<Fetched> {
  db.exec('begin')
  try {
    const start = selectStart.get(place)?.start as number | undefined
    if (start === undefined) {
      selects.delete(place)
      return new Transferred<Fetched>({ gone: true }, [])
    }
    if (position < start) {
      return new Transferred<Fetched>({ gone: false, start, records: 0, block: new ArrayBuffer(0) }, [])
    }
    const rows: Row[] = []
    let bytes = 0
    for (const row of selectOf(place).iterate(position) as Iterable<unknown> as Iterable<Row>) {
      const size = row[5].length
      if (rows.length > 0 && bytes + size > bytesMax) break
      rows.push(row)
      bytes += size
    }
    const block = packRows(rows, bytes)
    return new Transferred<Fetched>({ gone: false, start, records: rows.length, block }, [block])
  } finally {
    db.exec('commit')
  }
}

const handlers = {
  fetch,
  ping: () => db.prepare('select 1').get() !== undefined,
  /** Moves what is committed from the WAL into the file, beside the writer. */
  checkpoint(): void {
    db.exec('pragma wal_checkpoint(passive)')
  },
  close(): void {
    selects.clear()
    db.close()
  },
}

export type ReaderHandlers = typeof handlers

serveWorker(handlers)
