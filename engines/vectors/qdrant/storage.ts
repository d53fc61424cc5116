/**
 * The form of a collection in Qdrant. That of the audit notes, which are many and seldom searched, has in memory its graph and a
 * copy of the vectors with a byte for each number; the vectors themselves lie on disk. A search goes through the copies and takes
 * its scores from the vectors.
 */

import { hnsw } from '../collections.ts'
import {
  deletedAtField,
  embedderField,
  expiresAtField,
  shapeField,
  tokensField,
  updatedAtField,
} from './filters.ts'

/**
 * Without a quantile: vectors of the built-in embedder are nearly empty, and their few large numbers are the hundredth that one
 * of .99 cuts off. Recall of audit notes differed less between the two than from one build of the graph to the next.
 */
const copies = { scalar: { type: 'int8', always_ram: true } } as const

/**
 * Field of the payload → its index, for filters on any key; which points are deleted, and since when; which have
 * expired; how many points an embedder made; which points have their values; their order in time. A point has a dozen
 * words, which in memory take as much as its copy.
 */
export const indexes = {
  [tokensField]: { type: 'keyword', on_disk: true },
  [deletedAtField]: 'integer',
  [expiresAtField]: 'integer',
  [embedderField]: 'keyword',
  [shapeField]: 'integer',
  [updatedAtField]: 'integer',
} as const

/** Vectors of so many points are read from disk at a few hits, and of twice as many as are wanted at any number. */
const rescoredMax = 512

/**
 * More points are found by their copies than are asked for, eight times as many at best: the nearest of them by their vectors are
 * the answer. Twice as many lost .002 of the ten nearest of 8,000 notes, eight times none.
 */
export function searchParams(limit: number) {
  return { quantization: { rescore: true, oversampling: Math.min(8, Math.max(2, rescoredMax / limit)) } }
}

/** A new collection. */
export function collectionConfig(dimension: number, isCopied: boolean) {
  const hnsw_config = { m: hnsw.m, ef_construct: hnsw.efConstruction }
  const vectors = { size: dimension, distance: 'Cosine' }
  if (!isCopied) return { vectors, hnsw_config, on_disk_payload: true }
  return {
    vectors: { ...vectors, on_disk: true },
    hnsw_config: { ...hnsw_config, on_disk: false },
    quantization_config: copies,
    on_disk_payload: true,
  }
}

/** The parts of Qdrant's "CollectionInfo" that are read here; a server may leave any of them out. */
export interface CollectionInfo {
  payload_schema: Record<string, { data_type?: string; params?: { on_disk?: boolean | null } | null }>
  config?: {
    params?: { vectors?: { on_disk?: boolean | null }; on_disk_payload?: boolean | null }
    hnsw_config?: { on_disk?: boolean | null }
    quantization_config?: {
      scalar?: { type?: string; quantile?: number | null; always_ram?: boolean | null }
    } | null
  }
}

/** The change that gives a collection the form of a new one with copies; null where it has it, or where the server does not tell. */
export function changesOf({ config }: CollectionInfo): object | null {
  if (!config) return null
  const { params, hnsw_config, quantization_config } = config
  const scalar = quantization_config?.scalar
  const isCopied =
    scalar?.type === copies.scalar.type && scalar.always_ram === copies.scalar.always_ram && !scalar.quantile
  const changes = {
    ...(params?.vectors?.on_disk ? {} : { vectors: { '': { on_disk: true } } }),
    ...(hnsw_config?.on_disk ? { hnsw_config: { on_disk: false } } : {}),
    ...(isCopied ? {} : { quantization_config: copies }),
    ...(params?.on_disk_payload === false ? { params: { on_disk_payload: true } } : {}),
  }
  return Object.keys(changes).length === 0 ? null : changes
}

/** The indexes that lie in memory and are to lie on disk. */
export function indexesToMove({ payload_schema }: CollectionInfo): (keyof typeof indexes)[] {
  const found = payload_schema[tokensField]
  return found && !found.params?.on_disk ? [tokensField] : []
}
