/** A collection of a generation: its table, its index, the reads that use it and the target of its writes. */

import { setImmediate } from 'node:timers/promises'
import { sleep } from '#lib/backoff.ts'
import type { CollectionStats } from '../port.ts'
import { createExpiry } from './expiry.ts'
import type { IndexFolder } from './index-folder.ts'
import { createIndexKeeper } from './index-keeper.ts'
import { createPointReader, type PointReader } from './point-reader.ts'
import type { MessageLog } from './points-file.ts'
import { type PointsTable, pointsTableName } from './points-table.ts'
import { tokensOf } from './points-write.ts'
import { createSelections } from './selections.ts'
import type { Times } from './times-index.ts'
import type { Words } from './words-index.ts'
import type { WriteQueue, WriteTarget } from './write-queue.ts'

const readingPollMs = 5
/** Reads wait for the removal of so many expired points, about a tenth of a second; with more they leave them out one by one. */
const awaitedMax = 240
const rowsPerSlice = 64
/** A start with many points waits for minutes: how far it is goes into the log. */
const sayEveryMs = 5_000

export interface CollectionTools {
  folder: IndexFolder
  queue: WriteQueue
  log: MessageLog
  /** Called with a time, in ms since 1970, before which none of a collection's points expires. */
  expiring(at: number): void
}

export type PointCollection = ReturnType<typeof openPointCollection>

/** With up to `smallMax` points it has no graph: all of them are compared, and it costs nothing at rest. */
export function openPointCollection(
  of: { name: string; generation: number; smallMax: number },
  table: PointsTable,
  { folder, queue, log, expiring }: CollectionTools,
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
  const target: WriteTarget = {
    exists: () => exists,
    write: table.write,
    committed(added) {
      total += added
      expiring(table.earliestExpiry())
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
  }
  const expiry = createExpiry(table, target, queue)
  const indexes = { words, times, selections, keeper }
  const reader = createPointReader(table, indexes, { total: () => total, expiry })

  /** Runs a query; what it reads is kept until it ends. */
  async function read<T>(work: (reader: PointReader) => T | Promise<T>): Promise<T> {
    reading++
    try {
      expiry.begin()
      // Counts are exact then. Without it, which a full disk prevents, the query leaves expired points out itself.
      if (expiry.isRunning() && expiry.expired() <= awaitedMax) await expiry.settled().catch(() => {})
      return await work(reader)
    } finally {
      reading--
    }
  }
  return {
    /** Unique in the folder of indexes. */
    name,
    keeper,
    read,
    /** Resolves when no query runs any more. */
    async unread(): Promise<void> {
      while (reading > 0 || expiry.isRunning()) await sleep(readingPollMs)
    },
    target,
    /** In ms since 1970: no point expires before. */
    earliestExpiry: table.earliestExpiry,
    /** Removes the points that have expired. */
    async expire(): Promise<void> {
      if (exists) await expiry.settled()
    },
    total: (): number => total,
    stats: (): CollectionStats => ({ collection, points: total - expiry.expired(), ...keeper.stats() }),
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
