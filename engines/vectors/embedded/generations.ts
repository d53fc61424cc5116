/**
 * Complete sets of collections: one is live, others are being built, and dropped ones are removed. A collection of a generation is
 * its table, its index, the reads that use it and the target of its writes.
 */

import { setImmediate } from 'node:timers/promises'
import { sleep } from '#lib/backoff.ts'
import { AppError } from '#lib/errors.ts'
import { vectorsUnavailable } from '../collections.ts'
import type { CollectionStats } from '../port.ts'
import type { IndexFolder } from './index-folder.ts'
import { createIndexKeeper } from './index-keeper.ts'
import { createPointReader, type PointReader } from './point-reader.ts'
import type { MessageLog, PointsFile } from './points-file.ts'
import { type PointsTable, pointsTableName, tokensOf } from './points-table.ts'
import { createSelections } from './selections.ts'
import type { Times } from './times-index.ts'
import type { Words } from './words-index.ts'
import type { WriteQueue, WriteTarget } from './write-queue.ts'

const rowsPerPurge = 256
/** A graph takes 2.5 MB, however few points it holds. To compare so many points takes some milliseconds. */
const ownSmallMax = 256

export type Generations = ReturnType<typeof openGenerations>

export function openGenerations(
  file: PointsFile,
  folder: IndexFolder,
  queue: WriteQueue,
  names: string[],
  log: MessageLog,
) {
  const open = new Map<number, Map<string, PointCollection>>()
  /** Collections that are being removed: until their rows are gone nothing may be written there. */
  const leaving = new Set<string>()
  let live = 1

  function load(generation: number): void {
    const all = [...names, ...file.made(generation)]
    open.set(generation, new Map(all.map((name) => [name, openOne(name, generation)])))
  }
  function openOne(name: string, generation: number): PointCollection {
    const smallMax = names.includes(name) ? 0 : ownSmallMax
    return openPointCollection({ name, generation, smallMax }, file.table(name, generation), folder, log)
  }
  for (const { generation, state } of file.generations()) {
    if (state === 'dropped') continue
    load(generation)
    if (state === 'live') live = generation
  }
  function leave(generation: number): Map<string, PointCollection> | undefined {
    const left = open.get(generation)
    open.delete(generation)
    for (const collection of left?.values() ?? []) collection.end()
    return left
  }
  /** Frees a dropped generation's rows little by little, so that no call waits for a large table to be deleted. */
  async function clear(generation: number, left?: Map<string, PointCollection>): Promise<void> {
    // A read that began before the promotion still finds everything.
    for (const collection of left?.values() ?? []) {
      await collection.unread()
      collection.forgetWords()
    }
    await queue.exclusively(() => file.addGeneration(generation, 'dropped'))
    for (const name of [...names, ...file.made(generation)]) {
      await purge(queue, file.table(name, generation))
    }
    await queue.exclusively(() => file.removeTables(generation))
  }
  function collectionsOf(generation: number): Map<string, PointCollection> {
    const collections = open.get(generation)
    if (collections) return collections
    throw new AppError('conflict', `There is no generation ${generation}.`)
  }
  function demandNotLive(generation: number): void {
    if (generation === live) throw new AppError('conflict', `Generation ${generation} is live.`)
  }
  return {
    live: (): number => live,
    /** In the live generation; undefined where nothing was written into it. */
    find: (name: string): PointCollection | undefined => collectionsOf(live).get(name),
    /**
     * For a write: it is made where it is missing. Throws AppError `conflict` for a generation that is not there, and
     * `vector_engine_unavailable` while the collection is being removed.
     */
    toWrite(name: string, generation: number = live): PointCollection {
      const collections = collectionsOf(generation)
      const found = collections.get(name)
      if (found) return found
      if (leaving.has(name)) throw vectorsUnavailable()
      file.makeTable(name, generation)
      const made = openOne(name, generation)
      collections.set(name, made)
      return made
    },
    /** From every generation. A kill in the midst leaves a part of it, to be dropped again. */
    dropCollection: (name: string) => dropEverywhere({ open, leaving, queue, file }, name),
    /** Collections of one generation, or of all. */
    all: (generation?: number): PointCollection[] =>
      [...open]
        .filter(([each]) => generation === undefined || each === generation)
        .flatMap(([, collections]) => [...collections.values()]),
    async create(generation: number): Promise<void> {
      demandNotLive(generation)
      await dropIfThere(generation)
      await queue.exclusively(() => {
        file.addGeneration(generation, 'building')
        load(generation)
      })
    },
    async promote(generation: number): Promise<void> {
      if (generation === live) return
      if (!open.has(generation)) throw new AppError('conflict', `There is no generation ${generation}.`)
      const former = await queue.exclusively(() => {
        file.promote(generation)
        const before = live
        live = generation
        return { generation: before, left: leave(before) }
      })
      await clear(former.generation, former.left)
    },
    async drop(generation: number): Promise<void> {
      demandNotLive(generation)
      await dropIfThere(generation)
    },
    /** Builds the indexes that were not closed cleanly. */
    async prepare(): Promise<void> {
      for (const { generation, state } of file.generations()) if (state === 'dropped') await clear(generation)
      for (const collections of open.values()) for (const each of collections.values()) await each.prepare()
    },
  }

  async function dropIfThere(generation: number): Promise<void> {
    if (!file.generations().some((known) => known.generation === generation)) return
    const left = await queue.exclusively(() => {
      file.markDropped(generation)
      return leave(generation)
    })
    await clear(generation, left)
  }
}

async function dropEverywhere(
  {
    open,
    leaving,
    queue,
    file,
  }: {
    open: ReadonlyMap<number, Map<string, PointCollection>>
    leaving: Set<string>
    queue: WriteQueue
    file: PointsFile
  },
  name: string,
): Promise<void> {
  if (leaving.has(name)) return
  leaving.add(name)
  try {
    for (const [generation, collections] of open) {
      const left = collections.get(name)
      if (!left) continue
      await queue.exclusively(() => {
        collections.delete(name)
        left.end()
      })
      await left.unread()
      left.forgetWords()
      await purge(queue, file.table(name, generation))
      await queue.exclusively(() => file.removeTable(name, generation))
    }
  } finally {
    leaving.delete(name)
  }
}

/** Deletes the rows little by little. */
async function purge(queue: WriteQueue, table: PointsTable): Promise<void> {
  while (await queue.exclusively(() => table.purge(rowsPerPurge))) await setImmediate()
  while (await queue.exclusively(() => table.forgetDeletions(Number.MAX_SAFE_INTEGER, rowsPerPurge))) {
    await setImmediate()
  }
}

const readingPollMs = 5
const rowsPerSlice = 64
/** A start with many points waits for minutes: how far it is goes into the log. */
const sayEveryMs = 5_000

export type PointCollection = ReturnType<typeof openPointCollection>

/** With up to `smallMax` points it has no graph: all of them are compared, and it costs nothing at rest. */
function openPointCollection(
  of: { name: string; generation: number; smallMax: number },
  table: PointsTable,
  folder: IndexFolder,
  log: MessageLog,
) {
  const { name: collection, generation, smallMax } = of
  const name = `${collection}-${generation}`
  let total = table.countAll()
  let isSmall = total <= smallMax && smallMax > 0
  let exists = true
  const words = folder.words(name)
  const times = folder.times(name)
  const opened = isSmall
    ? undefined
    : (folder.reopen(name, total) ?? (total === 0 ? folder.create(name) : undefined))
  let reading = 0
  const source = pointsTableName(`${collection}_${generation}`)
  const merge = (signal: AbortSignal) => folder.merge(name, source, signal)
  const create = () => folder.create(name)
  const keeper = createIndexKeeper({ name, table, create, merge, opened, isWanted: !isSmall, log })
  const selections = createSelections(table, words, times)
  const reader = createPointReader(table, { words, times, selections }, keeper, () => total)
  return {
    /** Unique in the folder of indexes. */
    name,
    keeper,
    /** Runs a query; what it reads is kept until it ends. */
    async read<T>(work: (reader: PointReader) => T | Promise<T>): Promise<T> {
      reading++
      try {
        return await work(reader)
      } finally {
        reading--
      }
    },
    /** Resolves when no query runs any more. */
    async unread(): Promise<void> {
      while (reading > 0) await sleep(readingPollMs)
    },
    target: {
      exists: () => exists,
      write: table.write,
      committed(added) {
        total += added
        if (!isSmall || total <= smallMax) return
        isSmall = false
        void keeper.begin()
      },
      index(changes) {
        for (const { n, before, tokens, vector, payload } of changes) {
          words.replace(n, before, vector && tokens)
          times.replace(n, payload)
          selections.follow(n, payload)
        }
        keeper.follow(changes)
      },
    } satisfies WriteTarget,
    total: (): number => total,
    stats: (): CollectionStats => ({ collection, points: total, ...keeper.stats() }),
    /** Builds the index when there was none to open; resolves when it is there. */
    async prepare(): Promise<void> {
      if ((opened || isSmall) && !folder.wordsLost) return
      const begun = performance.now()
      if (folder.wordsLost) await fillWords(table, words, times)
      if (!opened && !isSmall) {
        let saidAt = begun
        const say = (points: number) =>
          log('info', 'vectors.index-building', { collection: name, points, total })
        if (total > 0) say(0)
        await keeper.rebuild((points) => {
          if (performance.now() - saidAt < sayEveryMs) return
          saidAt = performance.now()
          say(points)
        })
      }
      const ms = Math.round(performance.now() - begun)
      if (total > 0) log('info', 'vectors.index-built', { collection: name, points: total, ms })
    },
    /** No write reaches it any more. */
    end(): void {
      exists = false
      keeper.discard()
    },
    /** Called when nothing reads it any more. */
    forgetWords(): void {
      words.drop()
      times.drop()
    },
    forgetDeletions: table.forgetDeletions,
  }
}

async function fillWords(table: PointsTable, words: Words, times: Times): Promise<void> {
  words.clear()
  times.clear()
  for (let after = 0; ; ) {
    const rows = table.payloadsAfter(after, rowsPerSlice)
    for (const { n, payload } of rows) {
      words.replace(n, [], tokensOf(payload))
      times.replace(n, payload)
    }
    if (rows.length < rowsPerSlice) return
    after = rows.at(-1)!.n
    await setImmediate()
  }
}
