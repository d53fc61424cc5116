/** Keeps one collection's index in step with its table: drops it when it fails, builds it again, optimizes it when due. */

import { sleep } from '#lib/backoff.ts'
import { describeError } from '#lib/errors.ts'
import type { CollectionStats } from '../port.ts'
import { breathe } from './breathe.ts'
import type { MessageLog } from './message-log.ts'
import type { IndexQuery, NeighbourIndex } from './neighbour-index.ts'
import { type Change, type PointsTable, tokensOf } from './points-table.ts'

const rowsPerSlice = 32
const rebuildWaitMs = 5_000

export interface OpenIndex {
  index: NeighbourIndex
  /** Removes what it left on disk, after `close`. */
  discard(): void
}

export interface IndexKeeper {
  /** Takes committed changes in order. Never throws: an index that fails is dropped and built again. */
  follow(changes: Change[]): void
  /** Undefined while there is no usable index: scan the table then. */
  search(query: IndexQuery): number[] | undefined
  /** Builds the index from the table; the old one, if any, is discarded first. */
  rebuild(): Promise<void>
  /** Points that a search has to scan because the graph does not hold them yet. */
  unindexed(): number
  optimize(): Promise<void>
  stats(): Pick<CollectionStats, 'status' | 'indexedShare' | 'indexBytes'>
  /** Closes the index; false when what it leaves on disk must not be opened again. */
  close(): boolean
  /** Closes the index and removes it from disk. */
  discard(): void
}

export interface IndexKeeperOptions {
  name: string
  table: PointsTable
  create: () => OpenIndex
  /** The index of the last run, when that ended cleanly. */
  opened: OpenIndex | undefined
  log: MessageLog
}

export function createIndexKeeper({ name, table, create, opened, log }: IndexKeeperOptions): IndexKeeper {
  let current: OpenIndex | undefined = opened
  let building: OpenIndex | undefined
  let optimizing = false
  let ended = false

  function fail(what: string, error: unknown): void {
    log('error', 'vectors.index-dropped', { collection: name, while: what, cause: describeError(error) })
    discardAll()
    rebuildUntilDone().catch(() => {})
  }
  async function rebuildUntilDone(): Promise<void> {
    while (!ended) {
      try {
        return await rebuild()
      } catch (error) {
        log('error', 'vectors.rebuild-failed', { collection: name, cause: describeError(error) })
        discardAll()
        await sleep(rebuildWaitMs)
      }
    }
  }
  async function rebuild(): Promise<void> {
    discardAll()
    const fresh = create()
    building = fresh
    let after = 0
    for (;;) {
      await breathe()
      // Replaced or ended meanwhile: that one goes on.
      if (building !== fresh || ended) return
      const rows = table.rowsAfter(after, rowsPerSlice)
      if (rows.length === 0) break
      fresh.index.upsert(rows.map((row) => ({ ...row, tokens: tokensOf(row.payload) })))
      after = rows.at(-1)!.n
    }
    current = fresh
    building = undefined
  }
  function discardAll(): void {
    for (const each of [current, building]) if (each) closeQuietly(each.index, () => each.discard())
    current = undefined
    building = undefined
  }
  return {
    follow(changes) {
      const index = (building ?? current)?.index
      try {
        if (index) applyChanges(index, changes)
      } catch (error) {
        fail('writing', error)
      }
    },
    search(query) {
      try {
        return current?.index.search(query)
      } catch (error) {
        fail('searching', error)
        return undefined
      }
    },
    rebuild,
    unindexed: () =>
      !current || optimizing ? 0 : Math.round(current.index.documents() * (1 - current.index.indexedShare())),
    async optimize() {
      const one = current
      if (!one || optimizing) return
      optimizing = true
      try {
        await one.index.optimize()
      } catch (error) {
        if (one === current && !ended) fail('optimizing', error)
      } finally {
        optimizing = false
      }
    },
    stats: () => ({
      status: !current ? 'rebuilding' : optimizing ? 'indexing' : 'ready',
      indexedShare: current?.index.indexedShare() ?? 0,
      indexBytes: (current ?? building)?.index.bytes() ?? 0,
    }),
    close() {
      ended = true
      // Closing would wait until the graph is merged, which takes many seconds; building it again takes few.
      if (!current || optimizing) return false
      return closeQuietly(current.index)
    },
    discard() {
      ended = true
      discardAll()
    },
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

function closeQuietly(index: NeighbourIndex, after: () => void = () => {}): boolean {
  try {
    index.close()
    after()
    return true
  } catch {
    return false
  }
}
