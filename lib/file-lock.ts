/**
 * A lock on a file, held by one process at a time. Node has no file locks of its own, and packages for them keep a file's
 * time fresh instead, which outlives a killed process.
 */

import { DatabaseSync } from 'node:sqlite'

export interface FileLock {
  /** Gives it back. Idempotent. */
  release(): void
}

const sqliteBusy = 5

/**
 * Takes the lock, or null while another one has it, also in this process. It is an exclusive transaction that is never
 * ended: the system frees its file lock however the process dies.
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
