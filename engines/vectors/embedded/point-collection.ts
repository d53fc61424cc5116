/** One collection of one generation: its table, its index, the reads that use it and the target of its writes. */

import { setImmediate } from 'node:timers/promises'
import { sleep } from '#lib/backoff.ts'
import type { CollectionStats } from '../port.ts'
import type { IndexFolder } from './index-folder.ts'
import { createIndexKeeper, type IndexKeeper } from './index-keeper.ts'
import type { MessageLog } from './message-log.ts'
import { createPointReader, type PointReader } from './point-reader.ts'
import { type PointsTable, pointsTableName, tokensOf } from './points-table.ts'
import type { Words } from './words-index.ts'
import type { WriteTarget } from './write-queue.ts'

const readingPollMs = 5
const rowsPerSlice = 64
/** A start with many points waits for minutes: how far it is goes into the log. */
const sayEveryMs = 5_000

export interface PointCollection {
  /** Unique in the folder of indexes. */
  name: string
  /** Runs a query; what it reads is kept until it ends. */
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
  /** Called when nothing reads it any more. */
  forgetWords(): void
  forgetDeletions: PointsTable['forgetDeletions']
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
  const words = folder.words(name)
  const opened = folder.reopen(name, total) ?? (total === 0 ? folder.create(name) : undefined)
  let reading = 0
  const source = pointsTableName(`${collection}_${generation}`)
  const merge = (signal: AbortSignal) => folder.merge(name, source, signal)
  const keeper = createIndexKeeper({ name, table, create: () => folder.create(name), merge, opened, log })
  const reader = createPointReader(table, words, keeper, () => total)
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
      index(changes) {
        for (const { n, before, tokens } of changes) words.replace(n, before, tokens)
        keeper.follow(changes)
      },
    },
    total: () => total,
    stats: () => ({ collection, points: total, ...keeper.stats() }),
    async prepare() {
      if (opened && !folder.wordsLost) return
      const begun = performance.now()
      if (folder.wordsLost) await fillWords(table, words)
      if (!opened) {
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
    end() {
      exists = false
      keeper.discard()
    },
    forgetWords: () => words.drop(),
    forgetDeletions: table.forgetDeletions,
  }
}

async function fillWords(table: PointsTable, words: Words): Promise<void> {
  words.clear()
  for (let after = 0; ; ) {
    const rows = table.rowsAfter(after, rowsPerSlice)
    for (const row of rows) words.replace(row.n, [], tokensOf(row.payload))
    if (rows.length < rowsPerSlice) return
    after = rows.at(-1)!.n
    await setImmediate()
  }
}
