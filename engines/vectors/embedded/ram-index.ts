/** Keeps vectors in memory and compares every one of them with a query: slow with many, never wrong. */

import { createBest, dot, norm } from '../score.ts'
import type { IndexQuery, NeighbourIndex } from './index-keeper.ts'

/** Vectors of one memory block: large enough to scan quickly, small enough to grow by. */
const vectorsPerBlock = 1024

interface Candidate {
  n: number
  score: number
}

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
    const best = createBest<Candidate>(limit, (a, b) => b.score - a.score)
    const compare = (n: number, slot: number) => {
      const block = blockOf(slot)
      const score = dot(block, (slot % vectorsPerBlock) * dimension, vector, dimension)
      if (best.wants(score)) best.add({ n, score })
    }
    if (tokens.length === 0) for (const [n, slot] of slotOfRow) compare(n, slot)
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
