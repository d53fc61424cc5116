/**
 * Indexes that find the row numbers of near neighbours: on disk by zvec, which keeps vectors and filter words, and in memory,
 * which compares every vector with a query: slow with many, never wrong.
 */

import { readdirSync, statSync } from 'node:fs'
import { join } from 'node:path'
import type { ZVecCollection, ZVecStatus } from '@zvec/zvec'
import { AppError } from '#lib/errors.ts'
import { detach } from '#lib/giving-way.ts'
import { hnsw } from '../collections.ts'
import { type FilterTokens, wideToken } from '../filter.ts'
import { createBest, dot, norm } from '../score.ts'

export type WordFilter = Pick<FilterTokens, 'all' | 'none'>

interface IndexEntry {
  /** Row number of the point: its name in the index. */
  n: number
  vector: Float32Array
  /** Filter words of the payload. */
  tokens: string[]
}

export interface IndexQuery {
  vector: Float32Array
  limit: number
  /** Words that a hit must have, and must not have; both empty: no filter. */
  tokens: WordFilter
  /** The rows that may match, for an index that keeps no words itself. */
  matching: () => number[]
}

export interface NeighbourIndex {
  upsert(entries: IndexEntry[]): void
  /** Absent ones are left out. */
  remove(ns: number[]): void
  /** Row numbers, nearest first (approximately). */
  search(query: IndexQuery): number[]
  /** 0..1: the share that the graph serves; the rest is scanned. */
  indexedShare(): number
  documents(): number
  bytes(): number
  /** Ends it; after a clean close the same files can be opened again. */
  close(): void
}

export function hasTokens({ all, none }: WordFilter): boolean {
  return all.length + none.length > 0
}

export type Zvec = typeof import('@zvec/zvec')

export interface ZvecIndex extends NeighbourIndex {
  /**
   * Moves scanned points into the graph. Only for a process of its own: it takes long, cannot be stopped, and a
   * process or thread that ends meanwhile aborts.
   */
  optimize(): Promise<void>
}

/** What the process that builds an index is given: where the points are and where the index goes. */
export interface MergeOrder {
  /** The SQLite file and the table of points in it. */
  database: string
  table: string
  /** Where the index is made; must not exist. */
  path: string
  dimension: number
  nativeModule: string
}

/** A list in a filter holds at most 32 words; half of that keeps well away from the limit. */
const wordsPerList = 16
/** One call takes at most 1,024 documents. */
const documentsPerCall = 512

/** Loads the native module; undefined with the cause where this platform has none. */
export async function loadZvec(name: string): Promise<{ zvec?: Zvec; cause?: unknown }> {
  try {
    const zvec = (await import(name)) as Zvec
    quieten(zvec)
    return { zvec }
  } catch (cause) {
    return { cause }
  }
}

/** Its log goes to the console by default; faults reach us as exceptions. Only the first call counts. */
function quieten(zvec: Zvec): void {
  try {
    zvec.ZVecInitialize({ logLevel: zvec.ZVecLogLevel.FATAL })
  } catch {
    // Another thread of this process has done it.
  }
}

/** Makes a new, empty index in the folder `path`, which must not exist. */
export function createZvecIndex(zvec: Zvec, path: string, dimension: number): ZvecIndex {
  const schema = new zvec.ZVecCollectionSchema({
    name: 'points',
    vectors: [
      {
        name: 'v',
        // Half the memory and disk of float32: the table decides with the exact vectors.
        dataType: zvec.ZVecDataType.VECTOR_FP16,
        dimension,
        indexParams: {
          indexType: zvec.ZVecIndexType.HNSW,
          metricType: zvec.ZVecMetricType.COSINE,
          m: hnsw.m,
          efConstruction: hnsw.efConstruction,
        },
      },
    ],
    fields: [
      {
        name: 'kv',
        dataType: zvec.ZVecDataType.ARRAY_STRING,
        indexParams: { indexType: zvec.ZVecIndexType.INVERT },
      },
    ],
  })
  return wrap(zvec, zvec.ZVecCreateAndOpen(path, schema))
}

/** Opens an index that was closed cleanly. Never call it for another: zvec loses writes silently then. */
export function openZvecIndex(zvec: Zvec, path: string): ZvecIndex {
  return wrap(zvec, zvec.ZVecOpen(path))
}

function wrap(zvec: Zvec, collection: ZVecCollection): ZvecIndex {
  return {
    upsert(entries) {
      for (let i = 0; i < entries.length; i += documentsPerCall) {
        const documents = entries.slice(i, i + documentsPerCall).map(toDocument)
        demandOk(collection.upsertSync(documents))
        for (const { vectors } of documents) detach(vectors.v)
      }
    },
    remove(ns) {
      // Absent ones answer "not ok", which is expected.
      for (let i = 0; i < ns.length; i += documentsPerCall) {
        collection.deleteSync(ns.slice(i, i + documentsPerCall).map(String))
      }
    },
    search(query) {
      const asked = toQuery(zvec, query)
      const hits = collection.querySync(asked)
      detach(asked.vector)
      return hits.map((hit) => Number(hit.id))
    },
    indexedShare: () => collection.stats.indexCompleteness.v ?? 0,
    documents: () => collection.stats.docCount,
    optimize: () => collection.optimize({ concurrency: 1 }),
    bytes: () => folderBytes(collection.path),
    close: () => collection.closeSync(),
  }
}

function toDocument(entry: IndexEntry) {
  return { id: String(entry.n), vectors: { v: toUnit(entry.vector) }, fields: { kv: entry.tokens } }
}

function toQuery(zvec: Zvec, { vector, limit, tokens }: IndexQuery) {
  return {
    fieldName: 'v',
    vector: toUnit(vector),
    topk: limit,
    outputFields: [],
    params: { indexType: zvec.ZVecIndexType.HNSW, ef: Math.max(hnsw.efSearch, limit) },
    ...(hasTokens(tokens) ? { filter: toFilter(tokens) } : {}),
  }
}

/**
 * Every word of `all` and none of `none`. Payloads under the word of those that have too many pass, and are checked by the
 * caller. Without its own clause zvec leaves out a payload without words, until a merge.
 */
function toFilter({ all, none }: WordFilter): string {
  const parts: string[] = []
  if (all.length > 0) parts.push(`(${inLists('contain_all', all)}) or kv contain_any ('${wideToken}')`)
  if (none.length > 0) {
    const noWords = all.length === 0 ? ' or array_length(kv) = 0' : ''
    parts.push(`(${inLists('not contain_any', none)})${noWords}`)
  }
  return parts.map((part) => `(${part})`).join(' and ')
}

function inLists(operator: string, tokens: string[]): string {
  const lists: string[] = []
  for (let i = 0; i < tokens.length; i += wordsPerList) {
    const words = tokens.slice(i, i + wordsPerList).map((token) => `'${token}'`)
    lists.push(`kv ${operator} (${words.join(',')})`)
  }
  return lists.join(' and ')
}

/** The same direction with length 1: zvec's float32 arithmetic would overflow or vanish with extreme lengths. */
function toUnit(vector: Float32Array): Float32Array {
  const length = norm(vector)
  const unit = new Float32Array(vector.length)
  // Its own `map` makes an object of every component on the way: several times as slow, and food for the collector.
  for (let i = 0; i < unit.length; i++) unit[i] = vector[i]! / length
  return unit
}

function demandOk(statuses: ZVecStatus[]): void {
  const refused = statuses.find((status) => !status.ok)
  if (refused) throw new AppError('internal_error', `zvec refused a document (${refused.code})`)
}

function folderBytes(path: string): number {
  let bytes = 0
  for (const name of readdirSync(path, { recursive: true, encoding: 'utf8' })) {
    bytes += statSync(join(path, name), { throwIfNoEntry: false })?.size ?? 0
  }
  return bytes
}

/** Vectors of one memory block: large enough to scan quickly, small enough to grow by. */
const vectorsPerBlock = 1024

/**
 * An exact index for vectors of `dimension` numbers. Vectors are kept with length 1, so a dot product is the cosine.
 */
export function createRamIndex(dimension: number): NeighbourIndex {
  const blocks: Float32Array[] = []
  const slotOfRow = new Map<number, number>()
  const rowOfSlot: number[] = []
  const freeSlots: number[] = []

  function put(n: number, vector: Float32Array): void {
    let slot = slotOfRow.get(n)
    if (slot === undefined) {
      slot = freeSlots.pop() ?? rowOfSlot.length
      slotOfRow.set(n, slot)
      rowOfSlot[slot] = n
    }
    const block = blockOf(slot)
    const length = norm(vector)
    const offset = (slot % vectorsPerBlock) * dimension
    for (let i = 0; i < dimension; i++) block[offset + i] = vector[i]! / length
  }
  function blockOf(slot: number): Float32Array {
    const i = Math.floor(slot / vectorsPerBlock)
    blocks[i] ??= new Float32Array(vectorsPerBlock * dimension)
    return blocks[i]
  }
  function removeRow(n: number): void {
    const slot = slotOfRow.get(n)
    if (slot === undefined) return
    slotOfRow.delete(n)
    rowOfSlot[slot] = -1
    freeSlots.push(slot)
  }
  function search({ vector, limit, tokens, matching }: IndexQuery): number[] {
    const best = createBest<{ n: number; score: number }>(limit, (a, b) => b.score - a.score)
    const compare = (n: number, slot: number) => {
      const block = blockOf(slot)
      const score = dot(block, (slot % vectorsPerBlock) * dimension, vector, dimension)
      if (best.wants(score)) best.add({ n, score })
    }
    if (!hasTokens(tokens)) for (const [n, slot] of slotOfRow) compare(n, slot)
    else for (const n of matching()) if (slotOfRow.has(n)) compare(n, slotOfRow.get(n)!)
    return best.take().map((candidate) => candidate.n)
  }
  return {
    upsert: (entries) => {
      for (const entry of entries) put(entry.n, entry.vector)
    },
    remove: (ns) => ns.forEach(removeRow),
    search,
    indexedShare: () => 1,
    documents: () => slotOfRow.size,
    bytes: () => blocks.length * vectorsPerBlock * dimension * Float32Array.BYTES_PER_ELEMENT,
    close: () => {},
  }
}
