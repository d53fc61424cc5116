/**
 * Opens and closes everything that the thread owns: the file of points, the folder of indexes and the queue of
 * writes.
 */

import { mkdirSync } from 'node:fs'
import { sleep } from '#lib/backoff.ts'
import { describeError } from '#lib/errors.ts'
import type { CleanIndexes } from './clean-marker.ts'
import { type Generations, openGenerations } from './generations.ts'
import { type IndexFolder, openDiskFolder, openRamFolder } from './index-folder.ts'
import type { MessageLog } from './message-log.ts'
import type { PointCollection } from './point-collection.ts'
import { openPointsFile } from './points-file.ts'
import { createWriteQueue, type WriteQueue } from './write-queue.ts'
import { loadZvec } from './zvec-index.ts'

export interface EngineOptions {
  directory: string
  collections: string[]
  dimension: number
  index: 'zvec' | 'exact'
  nativeModule: string
}

export interface Engine {
  driver: 'embedded' | 'exact'
  generations: Generations
  queue: WriteQueue
  close(): Promise<void>
}

/**
 * When scanned points move into the graph. A merge rebuilds the whole graph, so how many may wait grows with it; when
 * nothing is being written fewer are worth the work.
 */
const mergeEveryMs = 500
const mergeRestMs = 2_000
const mergeRetryMs = 30_000
const idleAfterMs = 1_000
const mergeIdle = { atLeast: 2_000, share: 0.05 }
const mergeBusy = { atLeast: 20_000, share: 0.25 }

/** Opens what `directory` holds; resolves when every index is there (built again where it was not closed cleanly). */
export async function openEngine(options: EngineOptions, log: MessageLog): Promise<Engine> {
  mkdirSync(options.directory, { recursive: true })
  const { folder: index, driver } = await openFolder(options, log)
  const file = openPointsFile(options.directory, options.collections, options.dimension, log)
  const queue = createWriteQueue(file)
  const generations = openGenerations(file, index, queue, options.collections, log)
  await generations.prepare()
  const merging = keepMerging(generations, queue)
  return {
    driver,
    generations,
    queue,
    async close() {
      merging.end()
      await queue.exclusively(() => {})
      const indexes: CleanIndexes['indexes'] = {}
      for (const each of generations.all()) {
        const folder = each.keeper.close()
        if (folder !== undefined) indexes[each.name] = { folder, documents: each.total() }
      }
      index.close(indexes)
      await file.close()
    },
  }
}

async function openFolder(
  options: EngineOptions,
  log: MessageLog,
): Promise<{ folder: IndexFolder; driver: Engine['driver'] }> {
  const { index, directory, dimension, nativeModule } = options
  if (index === 'exact') return { folder: openRamFolder(directory, dimension), driver: 'exact' }
  const { zvec, cause } = await loadZvec(nativeModule)
  if (zvec) return { folder: openDiskFolder(zvec, options), driver: 'embedded' }
  log('warn', 'vectors.no-native-index', {
    effect: 'every search compares with all points, which is slower with many',
    cause: describeError(cause),
  })
  return { folder: openRamFolder(directory, dimension), driver: 'exact' }
}

/** One merge at a time: each takes a core for a while. */
function keepMerging(generations: Generations, queue: WriteQueue): { end(): void } {
  const stop = new AbortController()
  /** Nothing was due, and nothing has been written since. */
  let atRest = false
  const run = async () => {
    while (!stop.signal.aborted) {
      await sleep(atRest ? mergeRestMs : mergeEveryMs, stop.signal)
      const idle = queue.quietMs() >= idleAfterMs
      if (idle && atRest) continue
      const due = stop.signal.aborted ? undefined : mostDue(generations.all(), idle)
      atRest = idle && !due
      if (!due) continue
      const merged = await due.keeper.merge(stop.signal)
      if (!merged) await sleep(mergeRetryMs, stop.signal)
    }
  }
  void run()
  return { end: () => stop.abort() }
}

function mostDue(collections: PointCollection[], idle: boolean): PointCollection | undefined {
  const { atLeast, share } = idle ? mergeIdle : mergeBusy
  const due = collections
    .map((collection) => ({ collection, unindexed: collection.keeper.unindexed() }))
    .filter(({ collection, unindexed }) => unindexed > Math.max(atLeast, collection.total() * share))
  return due.sort((a, b) => b.unindexed - a.unindexed)[0]?.collection
}
