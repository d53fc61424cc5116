/** A file that says: the indexes on disk were closed cleanly, and are these. Without it they are built again. */

import { closeSync, fsyncSync, openSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'

export interface CleanIndexes {
  /** Name of a collection and generation → where its index lies and how many points it holds. */
  indexes: Record<string, { folder: string; documents: number }>
  /** The file of filter words. */
  words: string
}

const markerName = 'CLEAN'

/** Reads the marker and removes it for good, before anything is written: a second reader never finds it. */
export function takeCleanMarker(directory: string): CleanIndexes | undefined {
  const path = join(directory, markerName)
  let clean: CleanIndexes | undefined
  try {
    clean = JSON.parse(readFileSync(path, 'utf8')) as CleanIndexes
  } catch {
    // Absent or torn: nothing was closed cleanly.
  }
  rmSync(path, { force: true })
  syncPath(directory)
  return clean
}

/** Writes the marker once the index files themselves are on the disk. */
export function writeCleanMarker(directory: string, clean: CleanIndexes): void {
  for (const { folder } of Object.values(clean.indexes)) syncTree(join(directory, folder))
  syncPath(join(directory, clean.words))
  const path = join(directory, markerName)
  writeFileSync(path, JSON.stringify(clean))
  syncPath(path)
  syncPath(directory)
}

function syncTree(folder: string): void {
  for (const entry of readdirSync(folder, { withFileTypes: true, recursive: true })) {
    if (entry.isFile()) syncPath(join(entry.parentPath, entry.name))
  }
  syncPath(folder)
}

function syncPath(path: string): void {
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
