/** Computes exact cosine scores and keeps the best k: the one order of hits, which all drivers share. */

/** What decides where a hit is in the order. */
export interface Scored {
  id: string
  score: number
}

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
export function compareHits(a: Scored, b: Scored): number {
  return b.score - a.score || compareIds(a.id, b.id)
}

interface Best<T> {
  /** False when nothing with this score can be among the best any more. */
  wants(score: number): boolean
  add(item: T): void
  /** The best, best first. The collector is spent afterwards. */
  take(): T[]
}

/** Collects the `limit` best items of a stream: a heap whose root is the worst of those kept. */
export function createBest<T extends { score: number }>(
  limit: number,
  compare: (a: T, b: T) => number,
): Best<T> {
  const heap: T[] = []
  return {
    wants: (score) => heap.length < limit || score >= heap[0]!.score,
    add(item) {
      if (heap.length < limit) {
        heap.push(item)
        riseLast(heap, compare)
      } else if (compare(item, heap[0]!) < 0) {
        heap[0] = item
        sinkFirst(heap, compare)
      }
    },
    take: () => heap.sort(compare),
  }
}

function riseLast<T>(heap: T[], compare: (a: T, b: T) => number): void {
  let i = heap.length - 1
  while (i > 0) {
    const parent = (i - 1) >> 1
    if (compare(heap[i]!, heap[parent]!) <= 0) return
    swap(heap, i, parent)
    i = parent
  }
}

function sinkFirst<T>(heap: T[], compare: (a: T, b: T) => number): void {
  let i = 0
  for (;;) {
    let worst = i
    for (const child of [2 * i + 1, 2 * i + 2]) {
      if (child < heap.length && compare(heap[child]!, heap[worst]!) > 0) worst = child
    }
    if (worst === i) return
    swap(heap, i, worst)
    i = worst
  }
}

function swap<T>(heap: T[], i: number, j: number): void {
  const kept = heap[i]!
  heap[i] = heap[j]!
  heap[j] = kept
}
