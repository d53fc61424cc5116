/** Computes exact cosine scores and keeps the best k: the one order of hits, which all drivers share. */

import type { Hit } from './port.ts'

/** Length of a vector, in float64. */
export function norm(vector: Float32Array): number {
  return Math.sqrt(dot(vector, 0, vector, vector.length))
}

/** Dot product in float64 of `query` and the `query.length` numbers of `data` from `offset`. */
export function dot(data: Float32Array, offset: number, query: Float32Array, dimension: number): number {
  let a = 0
  let b = 0
  let c = 0
  let d = 0
  const whole = dimension & ~3
  for (let i = 0; i < whole; i += 4) {
    a += data[offset + i]! * query[i]!
    b += data[offset + i + 1]! * query[i + 1]!
    c += data[offset + i + 2]! * query[i + 2]!
    d += data[offset + i + 3]! * query[i + 3]!
  }
  for (let i = whole; i < dimension; i++) a += data[offset + i]! * query[i]!
  return a + b + (c + d)
}

/** Cosine from a dot product and the product of the two lengths; rounding must not lead out of -1..1. */
export function cosine(product: number, lengths: number): number {
  return lengths === 0 ? 0 : Math.max(-1, Math.min(1, product / lengths))
}

/**
 * Code point order, as SQLite compares UTF-8 bytes. JavaScript's `<` compares UTF-16 units, which puts U+E000..U+FFFF
 * behind the characters beyond U+FFFF.
 */
export function compareIds(a: string, b: string): number {
  const length = Math.min(a.length, b.length)
  for (let i = 0; i < length; i++) {
    const x = a.charCodeAt(i)
    const y = b.charCodeAt(i)
    if (x !== y) return surrogatesLast(x) - surrogatesLast(y)
  }
  return a.length - b.length
}

function surrogatesLast(unit: number): number {
  return unit >= 0xd800 && unit <= 0xdfff ? unit + 0x10000 : unit
}

/** Falling score, ties by id. */
export function compareHits(a: Pick<Hit, 'id' | 'score'>, b: Pick<Hit, 'id' | 'score'>): number {
  return b.score - a.score || compareIds(a.id, b.id)
}

/** Collects the `limit` best items of a stream: sorted and cut whenever there are twice as many. */
export function createBest<T extends { score: number }>(limit: number, compare: (a: T, b: T) => number) {
  const kept: T[] = []
  /** The last of the best when they were cut last. */
  let worst = Number.NEGATIVE_INFINITY
  function cut(): void {
    kept.sort(compare)
    kept.length = Math.min(kept.length, limit)
    if (kept.length === limit) worst = kept[limit - 1]!.score
  }
  return {
    /** False when nothing with this score can be among the best any more. */
    wants: (score: number) => score >= worst,
    add(item: T): void {
      kept.push(item)
      if (kept.length >= 2 * limit) cut()
    },
    /** The best, best first. The collector is spent afterwards. */
    take(): T[] {
      cut()
      return kept
    },
  }
}
