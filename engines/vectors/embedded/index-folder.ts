/** The folder of indexes: opens those of a clean stop, makes new ones under fresh names, removes everything else. */

import { mkdirSync, readdirSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { type CleanIndexes, takeCleanMarker, writeCleanMarker } from './clean-marker.ts'
import type { OpenIndex } from './index-keeper.ts'
import type { NeighbourIndex } from './neighbour-index.ts'
import { createRamIndex } from './ram-index.ts'
import { openWordsFile, type Words } from './words-index.ts'
import { createZvecIndex, openZvecIndex, type Zvec } from './zvec-index.ts'

export interface IndexFolder {
  create(name: string): OpenIndex
  /** The index of a clean stop when it holds `documents`; undefined: build it. */
  reopen(name: string, documents: number): OpenIndex | undefined
  /** The filter words of a collection. */
  words(name: string): Words
  /** True when the words of the last run are gone and must be gathered again. */
  wordsLost: boolean
  /** To be called when all indexes are closed; `documents` of those that may be opened again. */
  close(documents: Map<string, number>): void
}

/** Indexes in memory: nothing to reopen. What the other driver left would miss what is written now: its marker goes. */
export function openRamFolder(directory: string, dimension: number): IndexFolder {
  takeCleanMarker(indexRoot(directory))
  const words = openWordsFile(':memory:')
  return {
    create: () => ({ index: createRamIndex(dimension), discard: () => {} }),
    reopen: () => undefined,
    words: words.open,
    wordsLost: true,
    close: words.close,
  }
}

/** Indexes on disk below `directory`; takes the marker of the last clean stop away. */
export function openDiskFolder(zvec: Zvec, directory: string, dimension: number): IndexFolder {
  const root = indexRoot(directory)
  mkdirSync(root, { recursive: true })
  const clean = takeCleanMarker(root)
  removeOthers(root, clean)
  const stamp = Date.now().toString(36)
  const wordsName = clean?.words ?? `words-${stamp}.db`
  const words = openWordsFile(join(root, wordsName))
  const folders = new Map<string, string>()
  let made = 0

  function keep(name: string, folder: string, index: NeighbourIndex): OpenIndex {
    folders.set(name, folder)
    return { index, discard: () => rmSync(join(root, folder), { recursive: true, force: true }) }
  }
  return {
    create(name) {
      // Never a name used before: a dropped index may still hold its folder.
      const folder = `${name}-${stamp}-${made++}`
      return keep(name, folder, createZvecIndex(zvec, join(root, folder), dimension))
    },
    reopen(name, documents) {
      const found = clean?.indexes[name]
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
    words: words.open,
    wordsLost: !clean,
    close(documents) {
      words.close()
      const indexes: CleanIndexes['indexes'] = {}
      for (const [name, count] of documents) indexes[name] = { folder: folders.get(name)!, documents: count }
      writeCleanMarker(root, { indexes, words: wordsName })
    },
  }
}

function indexRoot(directory: string): string {
  return join(directory, 'index')
}

function removeOthers(root: string, clean: CleanIndexes | undefined): void {
  const kept = new Set(Object.values(clean?.indexes ?? {}).map(({ folder }) => folder))
  if (clean) kept.add(clean.words)
  for (const name of readdirSync(root)) {
    if (!kept.has(name)) rmSync(join(root, name), { recursive: true, force: true })
  }
}
