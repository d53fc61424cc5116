/**
 * What the point store needs of an index of vectors. An index may be dropped and built again from the store at any
 * time.
 */

export interface IndexEntry {
  /** Row number of the point: its name in the index. */
  n: number
  vector: Float32Array
  /** Filter words of the payload. */
  tokens: string[]
}

export interface IndexQuery {
  vector: Float32Array
  limit: number
  /** Words that a hit must have; empty: no filter. */
  tokens: string[]
  /** The rows that have these words, for an index that keeps no words itself. */
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
