/** Opens the data directory for one owner at a time, held by a lock that ends with its process. */

import { chmodSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { AppError } from './errors.ts'
import type { Closeable } from './resource.ts'

export interface DataDirectory extends Closeable {
  /** Absolute. */
  readonly path: string
  /** Addresses, the control socket and whatever else belongs to the running process. */
  readonly runPath: string
  /** A folder below it, made when absent, mode 0700. */
  folder(...names: string[]): string
  /** Gives the directory back. Idempotent. */
  close(): Promise<void>
}

const lockFile = 'lock.sqlite'
const ownerFile = 'owner.pid'

/**
 * Makes the directory (mode 0700) and takes its lock: embedded engines would destroy each other's data in two
 * processes without any error. Throws AppError `data_directory_in_use` that names the owner's process id.
 */
export async function openDataDirectory(path: string): Promise<DataDirectory> {
  const root = resolve(path)
  makeFolder(root)
  const lock = takeLock(root)
  writeFileSync(join(root, ownerFile), `${process.pid}\n`, { mode: 0o600 })
  const runPath = join(root, 'run')
  makeFolder(runPath)
  return {
    path: root,
    runPath,
    folder(...names) {
      const folder = join(root, ...names)
      makeFolder(folder)
      return folder
    },
    async close() {
      if (lock.isOpen) lock.close()
    },
  }
}

/**
 * An exclusive transaction that is never ended: the system frees its file lock however the process dies. Node has no
 * file locks of its own, and packages for them keep a file's time fresh instead, which outlives a killed process.
 */
function takeLock(root: string): DatabaseSync {
  const lock = new DatabaseSync(join(root, lockFile), { timeout: 0 })
  try {
    lock.exec('begin exclusive')
    return lock
  } catch (error) {
    lock.close()
    if (!isBusy(error)) throw error
    throw new AppError(
      'data_directory_in_use',
      `${root} belongs to the running process ${ownerOf(root)}; stop that process, or set FLOTILLA_HOME to another folder.`,
    )
  }
}

const sqliteBusy = 5

function isBusy(error: unknown): boolean {
  return ((error as { errcode?: number }).errcode ?? 0) % 256 === sqliteBusy
}

/** Written right after the lock is taken: until then the owner is not known. */
function ownerOf(root: string): string {
  try {
    return readFileSync(join(root, ownerFile), 'utf8').trim() || 'that is just starting'
  } catch {
    return 'that is just starting'
  }
}

/** mkdir's mode is cut by the umask and leaves an existing folder as it is. */
function makeFolder(path: string): void {
  mkdirSync(path, { recursive: true, mode: 0o700 })
  chmodSync(path, 0o700)
}
