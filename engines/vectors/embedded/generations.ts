/** Complete sets of collections: one is live, others are being built, and dropped ones are removed. */

import { setImmediate } from 'node:timers/promises'
import { AppError } from '#lib/errors.ts'
import type { IndexFolder } from './index-folder.ts'
import type { MessageLog } from './message-log.ts'
import { openPointCollection, type PointCollection } from './point-collection.ts'
import type { PointsFile } from './points-file.ts'
import type { WriteQueue } from './write-queue.ts'

const rowsPerPurge = 256

export interface Generations {
  live(): number
  /** Throws AppError `collection_not_found`, or `conflict` for a generation that is not there. */
  collection(name: string, generation?: number): PointCollection
  /** Of one generation, or of all. */
  all(generation?: number): PointCollection[]
  create(generation: number): Promise<void>
  promote(generation: number): Promise<void>
  drop(generation: number): Promise<void>
  /** Builds the indexes that were not closed cleanly. */
  prepare(): Promise<void>
}

export function openGenerations(
  file: PointsFile,
  folder: IndexFolder,
  queue: WriteQueue,
  names: string[],
  log: MessageLog,
): Generations {
  const open = new Map<number, Map<string, PointCollection>>()
  let live = 1

  function load(generation: number): void {
    const one = (name: string) =>
      openPointCollection(name, generation, file.table(name, generation), folder, log)
    open.set(generation, new Map(names.map((name) => [name, one(name)])))
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
    for (const name of names) {
      const table = file.table(name, generation)
      while (await queue.exclusively(() => table.purge(rowsPerPurge))) await setImmediate()
    }
    await queue.exclusively(() => file.removeTables(generation))
  }
  function demandNotLive(generation: number): void {
    if (generation === live) throw new AppError('conflict', `Generation ${generation} is live.`)
  }
  return {
    live: () => live,
    collection(name, generation = live) {
      const collections = open.get(generation)
      if (!collections) throw new AppError('conflict', `There is no generation ${generation}.`)
      const found = collections.get(name)
      if (!found) throw new AppError('collection_not_found', `There is no collection "${name}".`)
      return found
    },
    all: (generation) =>
      [...open]
        .filter(([each]) => generation === undefined || each === generation)
        .flatMap(([, collections]) => [...collections.values()]),
    async create(generation) {
      demandNotLive(generation)
      await dropIfThere(generation)
      await queue.exclusively(() => {
        file.addGeneration(generation, 'building')
        load(generation)
      })
    },
    async promote(generation) {
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
    async drop(generation) {
      demandNotLive(generation)
      await dropIfThere(generation)
    },
    async prepare() {
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
