/**
 * The folder of indexes: reopens those of a clean stop, makes new ones under fresh names and removes everything else. A file in it
 * records a clean stop and which indexes it left; without it they are built again.
 */

import { spawn } from 'node:child_process'
import { mkdirSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { syncPath, syncTree, writeSynced } from '#lib/files.ts'
import type { OpenIndex } from './index-keeper.ts'
import type { NeighbourIndex } from './neighbour-index.ts'
import {
  createRamIndex,
  createZvecIndex,
  type MergeOrder,
  openZvecIndex,
  type Zvec,
} from './neighbour-index.ts'
import { pointsPath } from './points-file.ts'
import type { Times } from './times-index.ts'
import { openWordsFile, type Words, wordsForm } from './words-index.ts'

export interface CleanIndexes {
  /** Name of a collection and generation → where its index is and how many points it holds. */
  indexes: Record<string, { folder: string; documents: number }>
  /** The file of filter words and times, and its form; absent: that of releases without times. */
  words: string
  wordsForm?: number
}

const markerName = 'CLEAN'

/** Reads the marker and removes it for good, before anything is written: a second reader never finds it. */
function takeCleanMarker(directory: string): CleanIndexes | undefined {
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
function writeCleanMarker(directory: string, clean: CleanIndexes): void {
  for (const { folder } of Object.values(clean.indexes)) syncTree(join(directory, folder))
  syncPath(join(directory, clean.words))
  writeSynced(join(directory, markerName), JSON.stringify(clean))
  syncPath(directory)
}

const entry = fileURLToPath(new URL('./merge-process.ts', import.meta.url))

/** Rejects when the process fails; `signal` kills it. */
function runMerge(order: MergeOrder, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const child = spawn(process.execPath, [entry, JSON.stringify(order)], {
      stdio: ['pipe', 'ignore', 'ignore'],
      signal,
      killSignal: 'SIGKILL',
    })
    child.on('error', reject)
    child.on('exit', (code, killed) => {
      if (code === 0) resolve()
      else reject(new Error(`the process that builds the index ended with ${killed ?? code}`))
    })
  })
}

export interface IndexFolder {
  driver: 'embedded' | 'exact'
  create(name: string): OpenIndex
  /** The index of a clean stop when it holds `documents`; undefined: build it. */
  reopen(name: string, documents: number): OpenIndex | undefined
  /** Makes an index of all points in `table` whose graph is complete; what changes meanwhile is not in it. */
  merge(name: string, table: string, signal: AbortSignal): Promise<OpenIndex>
  /** The filter words of a collection. */
  words(name: string): Words
  /** Its rows in the order of their times. */
  times(name: string): Times
  /** True when the words of the last run are gone and must be gathered again. */
  wordsLost: boolean
  /** To be called when all indexes are closed, with those that may be opened again. */
  close(indexes: CleanIndexes['indexes']): void
}

/** Indexes in memory: nothing to reopen. The other driver's files would miss writes from now on: their marker goes. */
export function openRamFolder(directory: string, dimension: number): IndexFolder {
  takeCleanMarker(indexRoot(directory))
  const words = openWordsFile(':memory:')
  return {
    driver: 'exact',
    create: () => ({ index: createRamIndex(dimension), discard: () => {} }),
    reopen: () => undefined,
    merge: () => Promise.reject(new Error('there is no graph in memory')),
    words: words.open,
    times: words.times,
    wordsLost: true,
    close: words.close,
  }
}

/** Indexes on disk below `directory`; takes the marker of the last clean stop away. */
export function openDiskFolder(
  zvec: Zvec,
  {
    directory,
    dimension,
    nativeModule,
  }: { directory: string } & Pick<MergeOrder, 'dimension' | 'nativeModule'>,
): IndexFolder {
  const root = indexRoot(directory)
  mkdirSync(root, { recursive: true })
  const clean = takeCleanMarker(root)
  removeOthers(root, clean)
  const stamp = Date.now().toString(36)
  const isKept = clean?.wordsForm === wordsForm
  const wordsName = isKept ? clean.words : `words-${stamp}.db`
  const words = openWordsFile(join(root, wordsName))
  let made = 0

  /** Never a name used before: a dropped index may still hold its folder. */
  function newFolder(name: string): string {
    return `${name}-${stamp}-${made++}`
  }
  function keep(folder: string, index: NeighbourIndex): OpenIndex {
    // Removing large files takes time; the rest is removed at the next start.
    const discard = () => void rm(join(root, folder), { recursive: true, force: true }).catch(() => {})
    return { index, folder, discard }
  }
  return {
    driver: 'embedded',
    create(name) {
      const folder = newFolder(name)
      return keep(folder, createZvecIndex(zvec, join(root, folder), dimension))
    },
    reopen(name, documents) {
      const found = clean?.indexes[name]
      if (!found) return undefined
      if (found.documents === documents) {
        try {
          const index = openZvecIndex(zvec, join(root, found.folder))
          if (index.documents() === documents) return keep(found.folder, index)
          index.close()
        } catch {
          // Whatever it is: the table has every point.
        }
      }
      rmSync(join(root, found.folder), { recursive: true, force: true })
      return undefined
    },
    async merge(name, table, signal) {
      const folder = newFolder(name)
      const path = join(root, folder)
      try {
        await runMerge({ database: pointsPath(directory), table, path, dimension, nativeModule }, signal)
        return keep(folder, openZvecIndex(zvec, path))
      } catch (error) {
        rmSync(path, { recursive: true, force: true })
        throw error
      }
    },
    words: words.open,
    times: words.times,
    wordsLost: !isKept,
    close(indexes) {
      words.close()
      writeCleanMarker(root, { indexes, words: wordsName, wordsForm })
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
