/** A file that says: the indexes on disk were closed cleanly, and are these. Without it they are built again. */

import { closeSync, fsyncSync, openSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'

/** Name of a collection and generation → where its index lies and how many points it holds. */
export type CleanIndexes = Record<string, { folder: string; documents: number }>

const markerName = 'CLEAN'

/** Reads the marker and removes it for good, before anything is written: a second reader never finds it. */
export function takeCleanMarker(directory: string): CleanIndexes {
  const path = join(directory, markerName)
  let indexes: CleanIndexes = {}
  try {
    indexes = JSON.parse(readFileSync(path, 'utf8')) as CleanIndexes
  } catch {
    // Absent or torn: nothing was closed cleanly.
  }
  rmSync(path, { force: true })
  syncPath(directory)
  return indexes
}

/** Writes the marker once the index files themselves are on the disk. */
export function writeCleanMarker(directory: string, indexes: CleanIndexes): void {
  for (const { folder } of Object.values(indexes)) syncTree(join(directory, folder))
  const path = join(directory, markerName)
  writeFileSync(path, JSON.stringify(indexes))
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
