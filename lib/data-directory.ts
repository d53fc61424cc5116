/** Opens the data directory for one owner at a time, held by a lock that ends with its process. */

import {
  accessSync,
  chmodSync,
  closeSync,
  constants,
  existsSync,
  openSync,
  readFileSync,
  statfsSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { dirname, join, resolve } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { AppError, describeError } from './errors.ts'
import { makeFolder } from './files.ts'
import type { Closeable } from './resource.ts'
import { type FileLock, isBusy, takeFileLock } from './sqlite.ts'
import { explainSystemFault } from './system-faults.ts'

/** Lies in a directory that is being restored from a backup, until all of it is there. */
export const restoringFile = 'RESTORING'
const lockFile = 'lock.sqlite'
const ownerFile = 'owner.pid'

/**
 * Makes the directory (mode 0700) and takes its lock: embedded engines would destroy each other's data in two
 * processes without any error. Closing gives it back. Throws AppError `data_directory_in_use` that names the owner's process id, or
 * `invalid_configuration` where nothing can be written, or where a restore was not finished (unless `restoring`: the
 * caller finishes it).
 */
export async function openDataDirectory(
  path: string,
  { restoring = false }: { restoring?: boolean } = {},
): Promise<Closeable> {
  const root = resolve(path)
  let lock: FileLock | undefined
  try {
    if (!restoring) refuseHalfRestored(root)
    makePrivate(root)
    lock = takeLock(root)
    writeFileSync(join(root, ownerFile), `${process.pid}\n`, { mode: 0o600 })
    makePrivate(join(root, 'run'))
  } catch (error) {
    lock?.release()
    throw error instanceof AppError ? error : unusable(root, reasonOf(error, root))
  }
  const held = lock
  return {
    async close() {
      held.release()
    },
  }
}

/** File systems of Linux that show the kernel's own data and keep no files: /proc and /sys. */
const kernelFileSystems: ReadonlySet<number> = new Set([0x9fa0, 0x62656572])

/** Why the directory cannot be used, as AppError `invalid_configuration`, or null. Makes nothing. */
export function dataDirectoryFault(path: string): AppError | null {
  const root = resolve(path)
  try {
    const present = presentPart(root)
    if (!statSync(present).isDirectory()) return unusable(root, 'it is a file, not a folder')
    if (kernelFileSystems.has(statfsSync(present).type)) return unusable(root, `${present} keeps no files`)
    accessSync(present, constants.W_OK | constants.X_OK)
    refuseHalfRestored(root)
    return null
  } catch (error) {
    return error instanceof AppError ? error : unusable(root, reasonOf(error, root))
  }
}

function refuseHalfRestored(root: string): void {
  if (!existsSync(join(root, restoringFile))) return
  throw new AppError(
    'invalid_configuration',
    `FLOTILLA_HOME: the restore into ${root} was not finished, so a part of the data is missing: run the same \`flotilla restore\` again, or name another folder.`,
  )
}

/** The path, or the deepest folder above it that exists. */
export function presentPart(path: string): string {
  try {
    statSync(path)
    return path
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT' || dirname(path) === path) throw error
    return presentPart(dirname(path))
  }
}

/** The process id of the running owner, as far as it is known, or null. Makes and changes nothing. */
export function dataDirectoryOwner(path: string): string | null {
  const root = resolve(path)
  const file = join(root, lockFile)
  if (!existsSync(file)) return null
  let lock: DatabaseSync | undefined
  try {
    // Who holds the lock lets nobody read either.
    lock = new DatabaseSync(file, { readOnly: true, timeout: 0 })
    lock.prepare('select 1 from sqlite_schema').get()
    return null
  } catch (error) {
    return isBusy(error) ? ownerOf(root) : null
  } finally {
    lock?.close()
  }
}

function unusable(root: string, why: string): AppError {
  return new AppError(
    'invalid_configuration',
    `FLOTILLA_HOME: the data directory ${root} cannot be used: ${why}. Correct that, or name another folder.`,
  )
}

/** SQLite says only that it cannot open a file: opening something else says why. */
function reasonOf(error: unknown, root: string): string {
  const reason = explainSystemFault(error)
  if (reason !== null) return reason
  try {
    accessSync(root, constants.W_OK)
    closeSync(openSync(root, 'r'))
  } catch (other) {
    return explainSystemFault(other) ?? describeError(other)
  }
  return describeError(error)
}

function takeLock(root: string): FileLock {
  const lock = takeFileLock(join(root, lockFile))
  if (lock === null) throw dataDirectoryInUse(root, ownerOf(root))
  return lock
}

export function dataDirectoryInUse(root: string, owner: string): AppError {
  return new AppError(
    'data_directory_in_use',
    `${root} belongs to the running process ${owner}; stop that process, or set FLOTILLA_HOME to another folder.`,
  )
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
function makePrivate(path: string): void {
  makeFolder(path)
  chmodSync(path, 0o700)
}
