/**
 * Keeps the index of one collection in step with its table: drops it when it fails, builds it again, merges it when due. An index
 * may be dropped and built again from the store at any time.
 */

import { setImmediate } from 'node:timers/promises'
import { sleep } from '#lib/backoff.ts'
import { describeError } from '#lib/errors.ts'
import type { CollectionStats } from '../port.ts'
import type { IndexQuery, NeighbourIndex } from './neighbour-index.ts'
import type { MessageLog } from './points-file.ts'
import type { PointsTable } from './points-table.ts'
import { type Change, tokensOf } from './points-write.ts'

const rowsPerSlice = 32
const rebuildWaitMs = 5_000

export interface OpenIndex {
  index: NeighbourIndex
  /** Where its files are; undefined for one in memory. */
  folder?: string
  /** Removes what it left on disk, after `close`. */
  discard(): void
}

interface IndexKeeperOptions {
  name: string
  table: PointsTable
  create: () => OpenIndex
  /** Makes an index with a complete graph from the table while the present one is used. */
  merge: (signal: AbortSignal) => Promise<OpenIndex>
  /** The index of the last run, when that ended cleanly. */
  opened: OpenIndex | undefined
  /** False: there is to be none until `begin`; the table is scanned. */
  isWanted?: boolean
  log: MessageLog
}

export type IndexKeeper = ReturnType<typeof createIndexKeeper>

export function createIndexKeeper(options: IndexKeeperOptions) {
  const { name, table, create, opened, log } = options
  let current = opened
  let building: OpenIndex | undefined
  /** Rows that changed since a merge began; undefined while there is none. */
  let changed: Set<number> | undefined
  let ended = false
  let { isWanted = true } = options

  function fail(what: string, error: unknown): void {
    log('error', 'vectors.index-dropped', { collection: name, while: what, cause: describeError(error) })
    discardAll()
    void rebuildUntilDone()
  }
  async function rebuildUntilDone(): Promise<void> {
    isWanted = true
    while (!ended) {
      const fault = await rebuild().then(() => null, describeError)
      if (fault === null) return
      log('error', 'vectors.rebuild-failed', { collection: name, cause: fault })
      discardAll()
      await sleep(rebuildWaitMs)
    }
  }
  /** Builds the index from the table; the old one, if any, is discarded first. `indexed`: so many points are in it. */
  async function rebuild(indexed?: (points: number) => void): Promise<void> {
    discardAll()
    const fresh = create()
    building = fresh
    let after = 0
    let points = 0
    for (;;) {
      await setImmediate()
      // Replaced or ended meanwhile: that one goes on.
      if (building !== fresh || ended) return
      const rows = table.rowsAfter(after, rowsPerSlice)
      if (rows.length === 0) break
      fresh.index.upsert(rows.map((row) => ({ ...row, tokens: tokensOf(row.payload) })))
      after = rows.at(-1)!.n
      points += rows.length
      indexed?.(points)
    }
    current = fresh
    building = undefined
  }
  /** Replaces the index by one whose graph holds all points. False when that failed or was ended: the present one goes on. */
  async function merge(signal: AbortSignal): Promise<boolean> {
    const replaced = current
    if (!replaced || changed) return false
    const begun = performance.now()
    changed = new Set()
    let merged: OpenIndex | undefined
    try {
      merged = await options.merge(signal)
      await catchUp(merged.index, table, changed)
      // Ended, or dropped and built again meanwhile: the merged one may lack what changed then.
      if (ended || current !== replaced) throw new Error('the index was replaced meanwhile')
      current = merged
      closeQuietly(replaced, true)
      log('info', 'vectors.index-merged', { collection: name, ms: Math.round(performance.now() - begun) })
      return true
    } catch (error) {
      if (merged) closeQuietly(merged, true)
      if (!ended && !signal.aborted) {
        log('warn', 'vectors.merge-failed', { collection: name, cause: describeError(error) })
      }
      return false
    } finally {
      changed = undefined
    }
  }
  function discardAll(): void {
    for (const each of [current, building]) if (each) closeQuietly(each, true)
    current = undefined
    building = undefined
  }
  return {
    /** Takes committed changes in order. Never throws: an index that fails is dropped and built again. */
    follow(changes: Change[]): void {
      const index = (building ?? current)?.index
      if (changed) for (const change of changes) changed.add(change.n)
      try {
        if (index) applyChanges(index, changes)
      } catch (error) {
        fail('writing', error)
      }
    },
    /** Undefined without a usable index: scan the table then. */
    search(query: IndexQuery): number[] | undefined {
      try {
        return current?.index.search(query)
      } catch (error) {
        fail('searching', error)
        return undefined
      }
    },
    rebuild,
    /** Builds the index in the background; from now on there is to be one. */
    begin: () => rebuildUntilDone(),
    /** Points that a search has to scan because the graph does not hold them yet. */
    unindexed: () =>
      !current || changed ? 0 : Math.round(current.index.documents() * (1 - current.index.indexedShare())),
    merge,
    stats: (): Pick<CollectionStats, 'status' | 'indexedShare' | 'indexBytes'> => ({
      status: isWanted ? statusOf(current, changed) : 'ready',
      indexedShare: current?.index.indexedShare() ?? 0,
      indexBytes: (current ?? building)?.index.bytes() ?? 0,
    }),
    /** The folder that may be opened again, if there is one. */
    close() {
      ended = true
      return current && closeQuietly(current, false) ? current.folder : undefined
    },
    /** Closes it and removes it from disk. */
    discard() {
      ended = true
      discardAll()
    },
  }
}

function statusOf(
  current: OpenIndex | undefined,
  changed: Set<number> | undefined,
): CollectionStats['status'] {
  if (!current) return 'rebuilding'
  return changed ? 'indexing' : 'ready'
}

/** Applies what changed while the index was made; returns in the tick in which nothing is left. */
async function catchUp(index: NeighbourIndex, table: PointsTable, rows: Set<number>): Promise<void> {
  while (rows.size > 0) {
    await setImmediate()
    for (const n of [...rows].slice(0, rowsPerSlice)) {
      rows.delete(n)
      const row = table.byRow(n)
      if (row) index.upsert([{ ...row, tokens: tokensOf(row.payload) }])
      else index.remove([n])
    }
  }
}

/** Runs of upserts and of removals, in order. */
function applyChanges(index: NeighbourIndex, changes: Change[]): void {
  for (let i = 0; i < changes.length; ) {
    const removal = changes[i]!.vector === null
    let end = i
    while (end < changes.length && (changes[end]!.vector === null) === removal) end++
    const run = changes.slice(i, end)
    if (removal) index.remove(run.map((change) => change.n))
    else index.upsert(run as (Change & { vector: Float32Array })[])
    i = end
  }
}

function closeQuietly({ index, discard }: OpenIndex, discarded: boolean): boolean {
  try {
    index.close()
    if (discarded) discard()
    return true
  } catch {
    return false
  }
}
