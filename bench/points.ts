/** Clustered points from a seed: 200 centres with noise, so that neighbours mean something, the same in every run. */

import { vectorDimension } from '#engines/vectors/collections.ts'

/** A small seeded generator (mulberry32), 0..1. */
export function createRandom(seed: number): () => number {
  let state = seed >>> 0
  return () => {
    state = (state + 0x6d2b79f5) >>> 0
    let t = state
    t = Math.imul(t ^ (t >>> 15), t | 1)
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61)
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296
  }
}

interface PointSource {
  vector(): number[]
  point(id: string): { id: string; vector: number[]; payload: Record<string, string | string[]> }
}

/** Vectors have eight decimals, as embedding services send them. */
export function createPointSource(seed: number, clusters = 200): PointSource {
  const random = createRandom(seed)
  const centreRandom = createRandom(7)
  const centres = Array.from({ length: clusters }, () =>
    Float32Array.from({ length: vectorDimension }, () => centreRandom() - 0.5),
  )
  const vector = () => {
    const centre = centres[Math.floor(random() * clusters)]!
    return Array.from(centre, (component) => Math.round((component + (random() - 0.5) * 0.6) * 1e8) / 1e8)
  }
  return {
    vector,
    point: (id) => ({
      id,
      vector: vector(),
      payload: {
        title: `Point ${id}`,
        collection: 'knowledgebase',
        status: random() < 0.5 ? 'active' : 'resolved',
        tags: ['bench', `group-${Math.floor(random() * 50)}`],
        mind_path: `bench/${id}.md`,
        updated_at: '2026-01-01T00:00:00.000Z',
      },
    }),
  }
}
