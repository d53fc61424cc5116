/** Looks into an SQLite file that nothing has open, without changing it or making another file. */

import { accessSync, constants } from 'node:fs'
import { DatabaseSync } from 'node:sqlite'
import { pathToFileURL } from 'node:url'
import { AppError } from './errors.ts'

const notADatabase = 26
const corrupt = 11

/**
 * Rows only in its write-ahead log are not seen. Throws AppError `invalid_configuration` for a file that is damaged, and
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
