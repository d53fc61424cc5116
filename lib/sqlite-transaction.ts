/** A transaction of SQLite around a piece of work; node:sqlite has no helper for it. */

import type { DatabaseSync } from 'node:sqlite'

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
