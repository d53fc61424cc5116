/** Work on a SQLite file in, all of it committed or none of it out. */

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
