/**
 * Complete sets of collections: one is live, others are being built, and dropped ones are removed. In all of them points expire.
 */

import { setImmediate } from 'node:timers/promises'
import { AppError, describeError } from '#lib/errors.ts'
import { vectorsUnavailable } from '../collections.ts'
import { createExpiryAlarm } from './expiry.ts'
import type { IndexFolder } from './index-folder.ts'
import { openPointCollection, type PointCollection } from './point-collection.ts'
import type { MessageLog, PointsFile } from './points-file.ts'
import type { PointsTable } from './points-table.ts'
import type { WriteQueue } from './write-queue.ts'

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
  const opened = () => [...open.values()].flatMap((collections) => [...collections.values()])
  const alarm = createAlarm(opened, log)
  const tools = { folder, queue, log, expiring: alarm.set }
  function load(generation: number): void {
    const all = [...names, ...file.made(generation)]
    open.set(generation, new Map(all.map((name) => [name, openOne(name, generation)])))
  }
  function openOne(name: string, generation: number): PointCollection {
    const smallMax = names.includes(name) ? 0 : ownSmallMax
    return openPointCollection({ name, generation, smallMax }, file.table(name, generation), tools)
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
    /** In the live generation, or another one; undefined where nothing was written into it. */
    find: (name: string, generation = live): PointCollection | undefined =>
      collectionsOf(generation).get(name),
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
      generation === undefined ? opened() : [...(open.get(generation)?.values() ?? [])],
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
      for (const each of opened()) alarm.set(each.earliestExpiry())
    },
    /** Points expire no more. */
    end: alarm.end,
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

function createAlarm(opened: () => PointCollection[], log: MessageLog) {
  return createExpiryAlarm(
    {
      async remove() {
        for (const each of opened()) if (each.earliestExpiry() <= Date.now()) await each.expire()
      },
      next: () => opened().reduce((least, each) => Math.min(least, each.earliestExpiry()), Infinity),
    },
    (error) => log('error', 'vectors.expiry-failed', { cause: describeError(error) }),
  )
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
  while (await queue.exclusively(() => table.purgeDeletions(rowsPerPurge))) await setImmediate()
}
