/** One collection of one generation: its table, its index, who reads it and where its writes go. */

import { sleep } from '#lib/backoff.ts'
import type { CollectionStats } from '../port.ts'
import type { IndexFolder } from './index-folder.ts'
import { createIndexKeeper, type IndexKeeper } from './index-keeper.ts'
import type { MessageLog } from './message-log.ts'
import { createPointReader, type PointReader } from './point-reader.ts'
import type { PointsTable } from './points-table.ts'
import type { WriteTarget } from './write-queue.ts'

const readingPollMs = 5

export interface PointCollection {
  /** Unique in the folder of indexes. */
  name: string
  /** Runs a query; what it reads stays until it ends. */
  read<T>(work: (reader: PointReader) => T | Promise<T>): Promise<T>
  /** Resolves when no query runs any more. */
  unread(): Promise<void>
  target: WriteTarget
  keeper: IndexKeeper
  total(): number
  stats(): CollectionStats
  /** Builds the index when there was none to open; resolves when it is there. */
  prepare(): Promise<void>
  /** No write reaches it any more. */
  end(): void
}

export function openPointCollection(
  collection: string,
  generation: number,
  table: PointsTable,
  folder: IndexFolder,
  log: MessageLog,
): PointCollection {
  const name = `${collection}-${generation}`
  let total = table.countAll()
  let exists = true
  const opened = folder.reopen(name, total) ?? (total === 0 ? folder.create(name) : undefined)
  let reading = 0
  const keeper = createIndexKeeper({ name, table, create: () => folder.create(name), opened, log })
  const reader = createPointReader(table, keeper, () => total)
  return {
    name,
    keeper,
    async read(work) {
      reading++
      try {
        return await work(reader)
      } finally {
        reading--
      }
    },
    async unread() {
      while (reading > 0) await sleep(readingPollMs)
    },
    target: {
      exists: () => exists,
      write: table.write,
      committed(added) {
        total += added
      },
      index: keeper.follow,
    },
    total: () => total,
    stats: () => ({ collection, points: total, ...keeper.stats() }),
    async prepare() {
      if (opened) return
      const begun = performance.now()
      await keeper.rebuild()
      const ms = Math.round(performance.now() - begun)
      log('info', 'vectors.index-built', { collection: name, points: total, ms })
    },
    end() {
      exists = false
      keeper.discard()
    },
  }
}
