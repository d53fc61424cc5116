/** Says what the next write to the file would meet. Writes for that only where there is reason to doubt. */

import { statfsSync } from 'node:fs'
import { dirname } from 'node:path'
import type { DatabaseSync } from 'node:sqlite'
import { inTransaction } from '#lib/sqlite-transaction.ts'

/** With less room than this a write is tried. It is more than the WAL takes between two checkpoints. */
const freeBytesMin = 128 * 1024 * 1024
const trialBytes = { least: 64 * 1024, most: 1024 * 1024 }

interface WriteProbe {
  /** Runs a write of about `bytes` and remembers whether it got through. */
  watch<T>(bytes: number, write: () => T): T
  /** Throws what a write would meet. */
  check(): void
}

/** `freeBytes` is the room on the disk. */
export function createWriteProbe(db: DatabaseSync, freeBytes: () => number): WriteProbe {
  /** Size of the last write, if it failed. */
  let failed: number | undefined

  return {
    watch(bytes, write) {
      try {
        const written = write()
        failed = undefined
        return written
      } catch (error) {
        failed = bytes
        throw error
      }
    },
    check() {
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
