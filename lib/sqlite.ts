/** What node:sqlite has no helper for: typed rows, transactions, a look into a file, and a lock that is one. */

import { accessSync, constants } from 'node:fs'
import { DatabaseSync, type SQLInputValue, type StatementSync } from 'node:sqlite'
import { pathToFileURL } from 'node:url'
import { AppError } from './errors.ts'

/** All rows of a query; the caller says what its columns are, because only the SQL text knows them. */
export function allRows<Row>(statement: StatementSync, ...params: SQLInputValue[]): Row[] {
  return statement.all(...params) as unknown[] as Row[]
}

/** As `allRows`, one after the other; also for statements that return arrays. */
export function eachRow<Row>(statement: StatementSync, ...params: SQLInputValue[]): Iterable<Row> {
  return statement.iterate(...params) as Iterable<unknown> as Iterable<Row>
}

/** The first row of a query, if it has one. */
export function firstRow<Row>(statement: StatementSync, ...params: SQLInputValue[]): Row | undefined {
  return statement.get(...params) as Row | undefined
}

/** Runs `work` in one write transaction; what it throws rolls back and goes on to the caller. */
export function inTransaction<T>(db: DatabaseSync, work: () => T): T {
  db.exec('begin immediate')
  try {
    const result = work()
    db.exec('commit')
    return result
  } catch (error) {
    if (db.isTransaction) db.exec('rollback')
    throw error
  }
}

const notADatabase = 26
const corrupt = 11

/**
 * Looks into a file that nothing has open, without changing it or making another file; rows only in its write-ahead log are not
 * seen. Throws AppError `invalid_configuration` for a file that is damaged, and
 * the system's error for one that this user may not write.
 */
export function lookInto(file: string, look: (db: DatabaseSync) => void): void {
  accessSync(file, constants.R_OK | constants.W_OK)
  const url = pathToFileURL(file)
  // Read-only alone would make the index of the write-ahead log.
  url.search = '?immutable=1'
  const db = new DatabaseSync(url, { readOnly: true })
  try {
    look(db)
  } catch (error) {
    const code = ((error as { errcode?: number }).errcode ?? 0) % 256
    if (code !== notADatabase && code !== corrupt) throw error
    throw new AppError('invalid_configuration', `${file} is damaged: restore it from a copy.`, {
      cause: error,
    })
  } finally {
    db.close()
  }
}

export interface FileLock {
  /** Gives it back. Idempotent. */
  release(): void
}

const sqliteBusy = 5

/**
 * Takes the lock of a file, or null while another one has it, also in this process. It is an exclusive transaction that is
 * never ended: the system frees its file lock however the process dies. (Packages keep a file's time fresh instead, which
 * outlives a killed process.)
 */
export function takeFileLock(file: string): FileLock | null {
  const lock = new DatabaseSync(file, { timeout: 0 })
  try {
    lock.exec('begin exclusive')
  } catch (error) {
    lock.close()
    if (isBusy(error)) return null
    throw error
  }
  return {
    release() {
      if (lock.isOpen) lock.close()
    },
  }
}

export function isBusy(error: unknown): boolean {
  return ((error as { errcode?: number }).errcode ?? 0) % 256 === sqliteBusy
}
