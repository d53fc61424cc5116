/** The log as it is at one instant, copied into another file while it goes on. */

import { backup } from 'node:sqlite'
import { makeFolder } from '#lib/folders.ts'
import { logPath, openForReading } from './layout.ts'

export interface LogSnapshot {
  /** Writes the log's file below `directory`, which is made; `onProgress` counts pages of the file. */
  copyTo(directory: string, onProgress: (done: number, total: number) => void): Promise<void>
  /** Until then the write-ahead log keeps what comes after the instant. */
  close(): void
}

/** Pages that are copied between two reports. */
const pagesPerStep = 512

/** Holds what was committed before the call. Neither writers nor readers of the log wait for it. */
export function openLogSnapshot(directory: string): LogSnapshot {
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
    async copyTo(target, onProgress) {
      makeFolder(target)
      await backup(db, logPath(target), {
        rate: pagesPerStep,
        progress: ({ totalPages, remainingPages }) => onProgress(totalPages - remainingPages, totalPages),
      })
    },
    close() {
      db.exec('rollback')
      db.close()
    },
  }
}
