/**
 * The worker thread of the embedded vector engine: it owns the file of points, the folder of indexes and the queue of writes. Points
 * go to the main thread packed, with their buffers moved.
 */

import { mkdirSync } from 'node:fs'
import { setImmediate } from 'node:timers/promises'
import { sleep } from '#lib/backoff.ts'
import { describeError } from '#lib/errors.ts'
import { emit, ownData, serveWorker, Transferred } from '#lib/worker-rpc.ts'
import type { ExpiredPoint, Filter, LogPosition, ScrolledPoint, ScrollQuery, SearchQuery } from '../port.ts'
import type { Found } from './found.ts'
import { type Generations, openGenerations } from './generations.ts'
import { type CleanIndexes, type IndexFolder, openDiskFolder, openRamFolder } from './index-folder.ts'
import { loadZvec } from './neighbour-index.ts'
import { jsonBytes, type Page } from './pages.ts'
import type { PointCollection } from './point-collection.ts'
import type { Embedders, PointReader } from './point-reader.ts'
import { type MessageLog, openPointsFile } from './points-file.ts'
import type { HeldRow, StoredPoint } from './points-table.ts'
import type { Write } from './points-write.ts'
import { createWriteQueue, type WriteQueue } from './write-queue.ts'

export interface EngineOptions {
  directory: string
  collections: string[]
  dimension: number
  index: 'zvec' | 'exact'
  nativeModule: string
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
async function openEngine(options: EngineOptions, log: MessageLog) {
  mkdirSync(options.directory, { recursive: true })
  const index = await openFolder(options, log)
  const file = openPointsFile(options.directory, options.collections, options.dimension, log)
  const queue = createWriteQueue(file)
  const generations = openGenerations(file, index, queue, options.collections, log)
  await generations.prepare()
  const merging = keepMerging(generations, queue)
  return {
    driver: index.driver,
    generations,
    queue,
    async close(): Promise<void> {
      merging.end()
      generations.end()
      await queue.exclusively(() => queue.end())
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

async function openFolder(options: EngineOptions, log: MessageLog): Promise<IndexFolder> {
  const { index, directory, dimension, nativeModule } = options
  if (index === 'exact') return openRamFolder(directory, dimension)
  const { zvec, cause } = await loadZvec(nativeModule)
  if (zvec) return openDiskFolder(zvec, options)
  log('warn', 'vectors.no-native-index', {
    effect: 'every search compares with all points, which is slower with many',
    cause: describeError(cause),
  })
  return openRamFolder(directory, dimension)
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

const log: MessageLog = (level, message, fields = {}) => emit('log', { level, message, fields })

const rowsPerSweep = 512

const engine = openEngine(ownData<EngineOptions>(), log)
// The first call reports its fault.
engine.catch(() => {})

/** What `work` reads of a collection, or `nothing` where nothing was written into it. */
async function read<T>(
  name: string,
  nothing: T,
  work: (reader: PointReader) => T | Promise<T>,
  generation?: number,
): Promise<T> {
  const collection = (await engine).generations.find(name, generation)
  return collection ? collection.read(work) : nothing
}

const handlers = {
  open: async () => (await engine).driver,
  async apply(name: string, writes: Write[], generation: number | undefined): Promise<void> {
    const { generations, queue } = await engine
    await queue.add(generations.toWrite(name, generation).target, writes)
  },
  /** Clears the live generation's deletions in small steps, so that no call waits for a large table. */
  async forgetDeletions(before: number): Promise<void> {
    const { generations, queue } = await engine
    for (const each of generations.all(generations.live())) {
      while (await queue.exclusively(() => each.forgetDeletions(before, rowsPerSweep))) await setImmediate()
    }
  },
  async search(name: string, query: SearchQuery) {
    const { queue } = await engine
    const none = { points: [], eligible: 0 }
    const { points, eligible } = await read<Found>(name, none, (reader) => reader.search(query))
    queue.searched()
    const isBare = query.withPayload === false && query.withVector !== true
    const filled = isBare ? points.length : countWithin(points, query)
    const scores = points.map((point) => point.score)
    const { value, transfer } = packPoints(points, query, filled)
    return new Transferred({ points: value, scores, eligible, filled }, transfer)
  },
  async scroll(name: string, query: ScrollQuery) {
    const none = { points: [], next: null }
    const { points, next } = await read<Page>(name, none, (reader) => reader.scroll(query))
    const { value, transfer } = packPoints(points, query)
    return new Transferred({ points: value, next }, transfer)
  },
  async count(name: string, filter: Filter | undefined): Promise<number> {
    return read(name, 0, (reader) => reader.count(filter))
  },
  async embedders(name: string, filter: Filter | undefined): Promise<Embedders> {
    return read<Embedders>(name, [], (reader) => reader.embedders(filter))
  },
  dropCollection: async (name: string) => (await engine).generations.dropCollection(name),
  async get(name: string, ids: string[]) {
    const points = await read<StoredPoint[]>(name, [], (reader) => reader.get(ids))
    return packPoints(points, { withPayload: true, withVector: true })
  },
  async held(name: string, ids: string[], generation: number | undefined) {
    const rows = await read<HeldRow[]>(name, [], (reader) => reader.held(ids), generation)
    return packHeld(rows)
  },
  expired: (name: string, limit: number) => read<ExpiredPoint[]>(name, [], (reader) => reader.expired(limit)),
  async stats() {
    const { generations } = await engine
    const live = generations.live()
    return generations.all(live).map((each) => each.stats())
  },
  liveGeneration: async () => (await engine).generations.live(),
  createGeneration: async (generation: number) => (await engine).generations.create(generation),
  promoteGeneration: async (generation: number) => (await engine).generations.promote(generation),
  dropGeneration: async (generation: number) => (await engine).generations.drop(generation),
  async ping(): Promise<void> {
    await engine
  },
  async close(): Promise<void> {
    await (await engine).close()
  },
}

export type EmbeddedHandlers = typeof handlers

type Wanted = Pick<SearchQuery, 'withPayload' | 'withVector' | 'bytesMax'>

/** How many of the points, the first of them, lie within `bytesMax`; one does whatever its size. */
function countWithin(points: StoredPoint[], wanted: Wanted): number {
  const { bytesMax = Number.POSITIVE_INFINITY } = wanted
  let bytes = 0
  const over = points.findIndex((point, i) => {
    bytes += jsonBytes(point, wanted)
    return i > 0 && bytes > bytesMax
  })
  return over === -1 ? points.length : over
}

/** The payload is JSON text. */
export type PackedPoint = Omit<ScrolledPoint, 'payload'> & { payload?: string; place?: string }

/** The points as they go to the main thread: all vectors in one buffer, which is moved. Only the first `filled` are whole. */
function packPoints(
  points: (StoredPoint & { place?: string })[],
  wanted: Wanted,
  filled = points.length,
): Transferred<PackedPoint[]> {
  const dimension = wanted.withVector === true ? (points[0]?.vector.length ?? 0) : 0
  const vectors = new Float32Array(filled * dimension)
  const packed = points.map(({ id, payload, vector, embedder, expiresAt, place }, i): PackedPoint => {
    const known = {
      id,
      ...(embedder === null ? {} : { embedder }),
      ...(expiresAt === null ? {} : { expiresAt }),
      ...(place === undefined ? {} : { place }),
    }
    if (i >= filled) return known
    if (dimension > 0) vectors.set(vector, i * dimension)
    return {
      ...known,
      ...(wanted.withPayload === false ? {} : { payload }),
      ...(dimension === 0 ? {} : { vector: vectors.subarray(i * dimension, (i + 1) * dimension) }),
    }
  })
  return new Transferred(packed, [vectors.buffer])
}

/** As `HeldPoint`. */
export interface PackedHeld {
  id: string
  position?: LogPosition
  point?: PackedPoint
}

function packHeld(rows: HeldRow[]): Transferred<PackedHeld[]> {
  const there = rows.flatMap(({ point }) => point ?? [])
  const { value, transfer } = packPoints(there, { withPayload: true, withVector: true })
  const points = value.values()
  const packed = rows.map(
    ({ id, position, point }): PackedHeld => ({
      id,
      ...(position ? { position } : {}),
      ...(point ? { point: points.next().value! } : {}),
    }),
  )
  return new Transferred(packed, transfer)
}

serveWorker(handlers)
