/** The folder of indexes: opens those of a clean stop, makes new ones under fresh names, removes everything else. */

import { mkdirSync, readdirSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { type CleanIndexes, takeCleanMarker, writeCleanMarker } from './clean-marker.ts'
import type { OpenIndex } from './index-keeper.ts'
import type { NeighbourIndex } from './neighbour-index.ts'
import { createRamIndex } from './ram-index.ts'
import { createZvecIndex, openZvecIndex, type Zvec } from './zvec-index.ts'

export interface IndexFolder {
  create(name: string): OpenIndex
  /** The index of a clean stop when it holds `documents`; undefined: build it. */
  reopen(name: string, documents: number): OpenIndex | undefined
  /** To be called when all are closed; `documents` of those that may be opened again. */
  markClean(documents: Map<string, number>): void
}

/** Indexes in memory: nothing to reopen. What zvec left would miss what is written now: its marker goes. */
export function openRamFolder(directory: string, dimension: number): IndexFolder {
  takeCleanMarker(indexRoot(directory))
  return {
    create: () => ({ index: createRamIndex(dimension), discard: () => {} }),
    reopen: () => undefined,
    markClean: () => {},
  }
}

/** Indexes of zvec below `directory`; takes the marker of the last clean stop away. */
export function openZvecFolder(zvec: Zvec, directory: string, dimension: number): IndexFolder {
  const root = indexRoot(directory)
  mkdirSync(root, { recursive: true })
  const clean: CleanIndexes = takeCleanMarker(root)
  removeOthers(root, new Set(Object.values(clean).map(({ folder }) => folder)))
  const folders = new Map<string, string>()
  let made = 0

  function keep(name: string, folder: string, index: NeighbourIndex): OpenIndex {
    folders.set(name, folder)
    return { index, discard: () => rmSync(join(root, folder), { recursive: true, force: true }) }
  }
  return {
    create(name) {
      // Never a name used before: a dropped index may still hold its folder.
      const folder = `${name}-${Date.now().toString(36)}-${made++}`
      return keep(name, folder, createZvecIndex(zvec, join(root, folder), dimension))
    },
    reopen(name, documents) {
      const found = clean[name]
      if (!found) return undefined
      if (found.documents === documents) {
        try {
          const index = openZvecIndex(zvec, join(root, found.folder))
          if (index.documents() === documents) return keep(name, found.folder, index)
          index.close()
        } catch {
          // Whatever it is: the table has every point.
        }
      }
      rmSync(join(root, found.folder), { recursive: true, force: true })
      return undefined
    },
    markClean(documents) {
      const indexes: CleanIndexes = {}
      for (const [name, count] of documents) indexes[name] = { folder: folders.get(name)!, documents: count }
      writeCleanMarker(root, indexes)
    },
  }
}

function indexRoot(directory: string): string {
  return join(directory, 'zvec')
}

function removeOthers(root: string, kept: Set<string>): void {
  for (const name of readdirSync(root)) {
    if (!kept.has(name)) rmSync(join(root, name), { recursive: true, force: true })
  }
}
