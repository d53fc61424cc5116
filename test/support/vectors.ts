/** Vectors with structure, the same in every run: random ones without any say nothing about a search. */

import type { LogPosition, Payload, PointOperation } from '#engines/vectors/port.ts'

export interface ClusteredOptions {
  count: number
  dimension: number
  clusters?: number
  /** How far a vector is from its centre, against the centre's own size. */
  spread?: number
  seed?: number
}

/** Numbers in 0..1 from a seed (mulberry32). */
export function createRandom(seed: number): () => number {
  let state = seed >>> 0
  return () => {
    state = (state + 0x6d2b79f5) >>> 0
    let mixed = Math.imul(state ^ (state >>> 15), state | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }
}

/** Vectors around random centres. */
export function clusteredVectors(options: ClusteredOptions): Float32Array[] {
  const { count, dimension, clusters = 50, spread = 0.5, seed = 1 } = options
  const random = createRandom(seed)
  const centred = () => random() - 0.5
  const centres = Array.from({ length: clusters }, () => Float32Array.from({ length: dimension }, centred))
  return Array.from({ length: count }, () => {
    const centre = centres[Math.floor(random() * clusters)]!
    return centre.map((component) => component + centred() * spread)
  })
}

/** A vector of `dimension` numbers that begins with `head`; the rest is zero. */
export function vectorOf(dimension: number, ...head: number[]): Float32Array {
  const vector = new Float32Array(dimension)
  vector.set(head)
  return vector
}

/** Random numbers from -0.5 to 0.5; far from that of every other seed. */
export function randomVector(dimension: number, seed: number): Float32Array {
  const random = createRandom(seed)
  return Float32Array.from({ length: dimension }, () => random() - 0.5)
}

let positions = 0

/** A log position newer than all before it. */
export function nextPosition(): LogPosition {
  return { epoch: 1, offset: positions++ }
}

/** A newer operation than all before it. */
export function upsertOf(id: string, vector: Float32Array, payload: object = {}): PointOperation {
  return { kind: 'upsert', id, position: nextPosition(), vector, payload: payload as Payload }
}

/** A newer operation than all before it. */
export function deleteOf(id: string): PointOperation {
  return { kind: 'delete', id, position: nextPosition() }
}
