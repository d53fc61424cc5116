/** The statistics of the collections, as callers see them. */

import type { CollectionStats, VectorStore } from '#engines/vectors/port.ts'

export interface ObservedCollection {
  collection: string
  points: number
  index_bytes: number
  index_status: CollectionStats['status']
  indexed_share: number
}

/** Throws AppError `vector_engine_unavailable`. */
export async function observeCollections(vectors: Pick<VectorStore, 'stats'>): Promise<ObservedCollection[]> {
  const stats = await vectors.stats()
  return stats.map(({ collection, points, indexBytes, status, indexedShare }) => ({
    collection,
    points,
    index_bytes: indexBytes,
    index_status: status,
    indexed_share: indexedShare,
  }))
}
