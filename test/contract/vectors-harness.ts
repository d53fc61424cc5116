/** The interface between a driver and the suites of the vector engine, and the suites' own tools. */

import type { Point, PointOperation, VectorStore } from '#engines/vectors/port.ts'

/** Where the points of one test are kept. */
export interface VectorsPlace {
  collections: readonly [string, string]
  open(): Promise<VectorStore>
  /** To be called before the first `open`: what a release that kept no positions left in the first collection. */
  fillAsFormerly(points: Point[]): Promise<void>
  /** To be called after the first `open`, for an engine that compares small collections point by point: it indexes them, too. */
  indexSmall?(): Promise<void>
}

export interface VectorsHarness {
  dimension: number
  /** A new, empty place, removed when the running test ends. */
  place(): Promise<VectorsPlace>
}

/** The tools of the suites. */
export interface VectorsContext {
  dimension: number
  /** A store in a new place, closed after the test, and its first collection, with `former` points if there are any. */
  fresh(former?: Point[]): Promise<{ store: VectorStore; name: string; other: string; place: VectorsPlace }>
  vector(...head: number[]): Float32Array
  upsert(id: string, vector: Float32Array, payload?: object): PointOperation
}
