/** The file that records a clean stop and which indexes it left on disk. Without it they are built again. */

import { readFileSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { syncPath, syncTree, writeSynced } from '#lib/synced-files.ts'

export interface CleanIndexes {
  /** Name of a collection and generation → where its index is and how many points it holds. */
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
  writeSynced(join(directory, markerName), JSON.stringify(clean))
  syncPath(directory)
}
