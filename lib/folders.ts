/** Makes folders for this user alone. */

import { existsSync, mkdirSync, statSync } from 'node:fs'
import { dirname } from 'node:path'

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
