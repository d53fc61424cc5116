/**
 * Makes vectors of texts without a model: words, word pairs and character trigrams are hashed into 1536 dimensions. It is
 * lexical: it compares spellings, not meanings.
 */

export const dimensions = 1536
/** Kinds of features: the seed keeps their hashes apart, the weight says how much a shared one counts. */
const words = { seed: 0x811c9dc5, weight: 1 }
const pairs = { seed: 0x01234567, weight: 0.7 }
const trigrams = { seed: 0x7feb352d, weight: 0.3 }

/**
 * Equal text gives equal bytes on every machine (integers and IEEE basic operations only). Texts that share words, pairs or parts
 * of words are near to each other; meaning beyond that it does not know. A unit vector for any text.
 */
export function embedWords(text: string): Float32Array {
  // Doubles until the end, added in the order of the text, so that rounding is the same everywhere.
  const sums = new Float64Array(dimensions)
  const found =
    text
      .normalize('NFKC')
      .toLowerCase()
      .match(/[\p{L}\p{M}\p{N}]+/gu) ?? []
  add(sums, words.weight, countWords(found))
  add(sums, pairs.weight, countPairs(found))
  add(sums, trigrams.weight, countTrigrams(found))
  return normalised(sums)
}

type Counts = Map<number, number>

function countWords(found: string[]): Counts {
  const counts: Counts = new Map()
  for (const word of found) count(counts, hashText(words.seed, word))
  return counts
}

function countPairs(found: string[]): Counts {
  const counts: Counts = new Map()
  for (let n = 1; n < found.length; n++) {
    const first = hashText(pairs.seed, found[n - 1] as string)
    count(counts, hashText(mix(first, 0x20), found[n] as string))
  }
  return counts
}

/** Three neighbouring code units, the word's edges counting as one. */
function countTrigrams(found: string[]): Counts {
  const counts: Counts = new Map()
  for (const word of found) {
    let before = edge
    let middle = word.charCodeAt(0)
    for (let n = 1; n <= word.length; n++) {
      const after = n === word.length ? edge : word.charCodeAt(n)
      count(counts, mix(mix(mix(trigrams.seed, before), middle), after))
      before = middle
      middle = after
    }
  }
  return counts
}

const edge = 0

function count(counts: Counts, hash: number): void {
  counts.set(hash, (counts.get(hash) ?? 0) + 1)
}

/** Sublinear by the square root, which IEEE defines to the last bit (a logarithm is not). */
function add(sums: Float64Array, weight: number, counts: Counts): void {
  for (const [hash, times] of counts) {
    const spread = avalanche(hash)
    // A sign of its own: features that meet in one dimension cancel as often as they add up.
    const sign = spread >>> 31 === 0 ? 1 : -1
    sums[(spread & 0x7fffffff) % dimensions]! += sign * weight * Math.sqrt(times)
  }
}

function hashText(seed: number, text: string): number {
  let hash = seed
  for (let n = 0; n < text.length; n++) hash = mix(hash, text.charCodeAt(n))
  return hash
}

/** One step of FNV-1a over a code unit. */
function mix(hash: number, unit: number): number {
  return Math.imul(hash ^ unit, 0x01000193)
}

/** Finalizer of MurmurHash3: every bit of the hash counts for dimension and sign. */
function avalanche(hash: number): number {
  let h = hash ^ (hash >>> 16)
  h = Math.imul(h, 0x85ebca6b)
  h ^= h >>> 13
  h = Math.imul(h, 0xc2b2ae35)
  return h ^ (h >>> 16)
}

/** Without any feature (or when all cancel) a fixed unit vector: cosine is not defined for the zero vector. */
export function normalised(sums: Float64Array): Float32Array {
  let squares = 0
  for (const sum of sums) squares += sum * sum
  const vector = new Float32Array(dimensions)
  if (squares === 0) {
    vector[0] = 1
    return vector
  }
  const norm = Math.sqrt(squares)
  for (let n = 0; n < dimensions; n++) vector[n] = sums[n]! / norm
  return vector
}
