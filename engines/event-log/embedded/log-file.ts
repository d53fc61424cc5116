/**
 * The file of the log: opens it with settings that make a commit durable, lays its tables and refuses a layout that is too new;
 * says what the next write would meet; copies it as it is at one instant.
 */

import { existsSync, statfsSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { backup, DatabaseSync } from 'node:sqlite'
import { AppError } from '#lib/errors.ts'
import { makeFolder } from '#lib/files.ts'
import { inTransaction, lookInto } from '#lib/sqlite.ts'

/** Raise it with each change of the tables below, and carry older files over in `layTables`. */
const layoutVersion = 2

/** A vector of 1,536 numbers, the largest part of most records, fills a page. A file keeps those that it was made with. */
export const pageBytes = 8_192
const walBytesMax = 64 * 2 ** 20
/** The writer writes checkpoints itself only when the other thread could not keep the WAL below this. */
const walPagesMax = walBytesMax / pageBytes

const tables = `
  create table meta (name text primary key, value text not null) strict;
  create table topics (
    name text primary key, cleanup text not null, retention_ms integer, tombstone_retention_ms integer not null,
    segment_bytes integer not null, segment_ms integer not null, record_bytes_max integer not null
  ) strict;
  -- start: first offset that is kept. next_floor: no record gets an offset below it, whatever was deleted.
  -- Below compacted_to each key occurs once, in clean_rows rows; tombstone_due: when the next tombstone may go.
  -- kind: rows (one for each record) or batches (of many records in a row).
  create table partitions (
    id integer primary key autoincrement, topic text not null, partition integer not null,
    start integer not null default 0, next_floor integer not null default 0,
    compacted_to integer not null default 0, clean_rows integer not null default 0, tombstone_due integer,
    kind text not null,
    unique (topic, partition)
  ) strict;
  create table positions (
    group_name text not null, topic text not null, partition integer not null,
    position integer not null, metadata text not null, at integer not null,
    primary key (group_name, topic, partition)
  ) strict, without rowid;
`

export function logPath(directory: string): string {
  return join(directory, 'event-log.sqlite')
}

/** Opens the file for writing; throws AppError `invalid_configuration` when a newer version wrote it. */
export function openForWriting(file: string): DatabaseSync {
  const db = new DatabaseSync(file, { timeout: 5_000 })
  db.exec(
    `pragma page_size = ${pageBytes}; pragma journal_mode = wal; pragma synchronous = full;
     pragma wal_autocheckpoint = ${walPagesMax}; pragma journal_size_limit = ${walBytesMax}; pragma cache_size = -16384`,
  )
  inTransaction(db, () => layTables(db))
  return db
}

function layTables(db: DatabaseSync): void {
  const known = db.prepare(`select 1 from sqlite_schema where name = 'meta'`).get()
  if (!known) {
    db.exec(tables)
    db.prepare(`insert into meta values ('layout', ?)`).run(String(layoutVersion))
    return
  }
  const found = layoutOf(db)
  // Before the second layout every row held one record; tables that are laid so stay so.
  if (found < 2) db.exec(`alter table partitions add column kind text not null default 'rows'`)
  if (found < layoutVersion) {
    db.prepare(`update meta set value = ? where name = 'layout'`).run(String(layoutVersion))
  }
}

/** Throws AppError `invalid_configuration` when a newer version wrote the file. */
function layoutOf(db: DatabaseSync): number {
  const found = Number(db.prepare(`select value from meta where name = 'layout'`).get()?.value)
  if (found <= layoutVersion) return found
  throw new AppError(
    'invalid_configuration',
    `The event log's file has layout ${found}; this version reads up to ${layoutVersion}. Start the newer version, or use another data directory.`,
  )
}

/** Throws where the log cannot be opened; makes and changes nothing. */
export function checkLogFile(directory: string): void {
  const file = logPath(directory)
  if (!existsSync(file)) return
  lookInto(file, (db) => {
    if (db.prepare(`select 1 from sqlite_schema where name = 'meta'`).get()) layoutOf(db)
  })
}

/** Opens the file for reading. Checkpoints may be made through it. */
export function openForReading(file: string): DatabaseSync {
  const db = new DatabaseSync(file, { timeout: 5_000 })
  db.exec('pragma query_only = on; pragma wal_autocheckpoint = 0; pragma cache_size = -16384')
  return db
}

/** With less room than this a write is tried. It is more than the WAL takes between two checkpoints. */
const freeBytesMin = 128 * 1024 * 1024
const trialBytes = { least: 64 * 1024, most: 1024 * 1024 }

/** `freeBytes` is the room on the disk. */
export function createWriteProbe(db: DatabaseSync, freeBytes: () => number) {
  /** Size of the last write, if it failed. */
  let failed: number | undefined

  return {
    /** Runs a write of about `bytes` and remembers whether it got through. */
    watch<T>(bytes: number, write: () => T): T {
      try {
        const written = write()
        failed = undefined
        return written
      } catch (error) {
        failed = bytes
        throw error
      }
    },
    /** Throws what a write would meet. */
    check(): void {
      if (failed === undefined && freeBytes() >= freeBytesMin) return
      tryWriting(db, Math.min(trialBytes.most, Math.max(trialBytes.least, failed ?? 0)))
      failed = undefined
    },
  }
}

export function freeBytesBeside(file: string): () => number {
  return () => {
    const { bavail, bsize } = statfsSync(dirname(file))
    return bavail * bsize
  }
}

/** Both are committed: only a commit reaches the disk. */
function tryWriting(db: DatabaseSync, bytes: number): void {
  inTransaction(db, () => {
    db.prepare(`insert or replace into meta values ('write-probe', printf('%.*c', ?, '0'))`).run(bytes)
  })
  inTransaction(db, () => db.exec(`delete from meta where name = 'write-probe'`))
}

/** Pages that are copied between two reports. */
const pagesPerStep = 512

export type LogSnapshot = ReturnType<typeof openLogSnapshot>

/** Holds all commits before the call. Neither writers nor readers of the log wait for it. */
export function openLogSnapshot(directory: string) {
  const db = openForReading(logPath(directory))
  try {
    // A transaction sees one state for as long as it is open, from its first read on.
    db.exec('begin')
    db.prepare('select count(*) from meta').get()
  } catch (error) {
    db.close()
    throw error
  }
  return {
    /** Writes the log's file below `directory`, which is made; `onProgress` counts pages of the file. */
    async copyTo(target: string, onProgress: (done: number, total: number) => void): Promise<void> {
      makeFolder(target)
      await backup(db, logPath(target), {
        rate: pagesPerStep,
        progress: ({ totalPages, remainingPages }) => onProgress(totalPages - remainingPages, totalPages),
      })
    },
    /** Until then the write-ahead log keeps later writes. */
    close(): void {
      db.exec('rollback')
      db.close()
    },
  }
}
