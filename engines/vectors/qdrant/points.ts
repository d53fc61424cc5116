/**
 * Converts points to Qdrant's form and back: any id as a UUID, the payload as its JSON text next to its filter
 * words.
 */

import { v5 } from 'uuid'
import { filterTokens, payloadTokens } from '../filter-tokens.ts'
import type { Filter, Payload, PointOperation, ScrolledPoint } from '../port.ts'

/** Root of the namespaces: one per collection, so that the same id differs from collection to collection. */
const rootNamespace = 'b9c6f1d2-3a54-5e0b-9d7c-5f1a7c2e8d46'

/**
 * What a point carries in Qdrant. The payload is text: Qdrant's JSON would lose `__proto__`, large integers and the
 * difference of 1 and 1.0, and no key of the user's can collide with ours. One keyword index on the words serves
 * filters on every payload key.
 */
export interface StoredPayload {
  id: string
  payload: string
  tokens: string[]
}

export const tokensField = 'tokens'

export function createPointIds(collection: string): (id: string) => string {
  const namespace = v5(collection, rootNamespace)
  return (id) => v5(id, namespace)
}

export type Upsert = Extract<PointOperation, { kind: 'upsert' }>

export interface QdrantPoint {
  id: string
  vector: number[]
  payload: { id: string; payload: string; tokens: string[] }
}

/** Qdrant refuses typed arrays. Every value has its word here: there is no such thing as too many. */
export function toQdrantPoint(operation: Upsert, pointId: (id: string) => string): QdrantPoint {
  return {
    id: pointId(operation.id),
    vector: Array.from(operation.vector),
    payload: {
      id: operation.id,
      payload: JSON.stringify(operation.payload),
      tokens: payloadTokens(operation.payload, Number.POSITIVE_INFINITY),
    },
  }
}

export interface QdrantRecord {
  payload?: unknown
  vector?: unknown
}

export function fromQdrantRecord(record: QdrantRecord): ScrolledPoint {
  const stored = record.payload as Partial<StoredPayload>
  return {
    id: stored.id!,
    ...(stored.payload === undefined ? {} : { payload: JSON.parse(stored.payload) as Payload }),
    ...(Array.isArray(record.vector) ? { vector: Float32Array.from(record.vector as number[]) } : {}),
  }
}

/** Qdrant's filter for ours; undefined when everything matches. */
export function toQdrantFilter(filter: Filter | undefined) {
  const words = filterTokens(filter)
  if (words.length === 0) return undefined
  return { must: words.map((value) => ({ key: tokensField, match: { value } })) }
}

/** The names of what a read needs: the id always. */
export function payloadFields(withPayload: boolean | undefined): string[] {
  return withPayload === false ? ['id'] : ['id', 'payload']
}

const pointsPerBatch = 250
/** Qdrant takes 32 MiB; what follows is an upper estimate of a point's JSON. */
const bytesPerBatch = 24 * 2 ** 20
const bytesPerNumber = 24
const bytesPerToken = 20

/** Cuts points into requests that Qdrant accepts. */
export function inBatches(points: QdrantPoint[]): QdrantPoint[][] {
  const batches: QdrantPoint[][] = []
  let bytes = 0
  for (const point of points) {
    const size =
      point.vector.length * bytesPerNumber +
      Buffer.byteLength(point.payload.payload) * 2 +
      Buffer.byteLength(point.payload.id) * 2 +
      point.payload.tokens.length * bytesPerToken
    const last = batches.at(-1)
    if (last && last.length < pointsPerBatch && bytes + size <= bytesPerBatch) {
      last.push(point)
      bytes += size
    } else {
      batches.push([point])
      bytes = size
    }
  }
  return batches
}
