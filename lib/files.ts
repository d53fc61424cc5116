/** Makes folders for this user alone; writes and syncs files and folders so that they survive a machine that stops. */

import {
  closeSync,
  existsSync,
  fsyncSync,
  mkdirSync,
  openSync,
  readdirSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { dirname, join } from 'node:path'

/** Writes a file for its owner alone and syncs it; its name is durable once its folder is synced, too. */
export function writeSynced(path: string, text: string): void {
  writeFileSync(path, text, { mode: 0o600 })
  syncPath(path)
}

/** Everything in a folder, and the folder; nothing where there is none. */
export function syncTree(folder: string): void {
  if (!existsSync(folder)) return
  for (const entry of readdirSync(folder, { withFileTypes: true, recursive: true })) {
    syncPath(join(entry.parentPath, entry.name))
  }
  syncPath(folder)
}

/** One file, or the names in one folder. */
export function syncPath(path: string): void {
  let file: number | undefined
  try {
    file = openSync(path, 'r')
    fsyncSync(file)
  } catch {
    // Some systems cannot sync a folder (Windows) or a file opened for reading: their own order must do.
  } finally {
    if (file !== undefined) closeSync(file)
  }
}

/**
 * Makes the folder with those above it, mode 0700; one that exists stays as it is. Throws what the system says. Node's own
 * recursive mkdir never ends where a parent exists but takes no folders, as /proc does.
 */
export function makeFolder(path: string): void {
  try {
    mkdirSync(path, { mode: 0o700 })
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    if (code === 'EEXIST' && statSync(path).isDirectory()) return
    const parent = dirname(path)
    if (code !== 'ENOENT' || existsSync(parent)) throw error
    makeFolder(parent)
    mkdirSync(path, { mode: 0o700 })
  }
}
