/**
 * Converts points to Qdrant's form and back: any id as a UUID, the payload as its JSON text next to its filter
 * words.
 */

import { v5 } from 'uuid'
import { filterTokens, payloadTokens } from '../filter.ts'
import type { Filter, LogPosition, Payload, PointOperation, ScrolledPoint } from '../port.ts'
import type { BodyPart } from './calls.ts'

/** Root of the namespaces: one per collection, so that the same id differs from collection to collection. */
const rootNamespace = 'b9c6f1d2-3a54-5e0b-9d7c-5f1a7c2e8d46'

/**
 * What a point carries in Qdrant. The payload is text: Qdrant's JSON would lose `__proto__`, large integers and the
 * difference of 1 and 1.0, and no key of the user's can collide with ours. One keyword index on the words serves
 * filters on every payload key.
 */
type StoredPayload = { id: string; epoch: number; offset: number } & (
  | { payload: string; tokens: string[] }
  | Deletion
)

/**
 * The remains of a deleted point: its position, so that no older write brings it back. It has a vector, because Qdrant
 * keeps the former one of a point that is written without; its direction means nothing, as no read sees the point.
 */
type Deletion = {
  /** When, in ms since 1970. */
  deletedAt: number
}

export const tokensField = 'tokens'
export const deletedAtField = 'deletedAt'
export const positionFields = ['epoch', 'offset']

export function createPointIds(collection: string): (id: string) => string {
  const namespace = v5(collection, rootNamespace)
  return (id) => v5(id, namespace)
}

export interface QdrantPoint {
  id: string
  vector: Float32Array
  payload: StoredPayload
}

/** Every value has its word here: there is no such thing as too many. */
export function toQdrantPoint(operation: PointOperation, pointId: string, dimension: number): QdrantPoint {
  const { id, position } = operation
  if (operation.kind === 'delete') {
    const vector = new Float32Array(dimension)
    vector[0] = 1
    return { id: pointId, vector, payload: { id, ...position, deletedAt: Date.now() } }
  }
  return {
    id: pointId,
    vector: operation.vector,
    payload: {
      id,
      ...position,
      payload: JSON.stringify(operation.payload),
      tokens: payloadTokens(operation.payload, Number.POSITIVE_INFINITY),
    },
  }
}

export interface QdrantRecord {
  id: string
  payload?: unknown
  vector?: unknown
}

export function fromQdrantRecord(record: QdrantRecord): ScrolledPoint {
  const stored = record.payload as { id: string; payload?: string }
  return {
    id: stored.id,
    ...(stored.payload === undefined ? {} : { payload: JSON.parse(stored.payload) as Payload }),
    ...(Array.isArray(record.vector) ? { vector: Float32Array.from(record.vector as number[]) } : {}),
  }
}

/** Roughly: characters of what a caller gets of it. */
export function jsonBytes({ payload, vector }: QdrantRecord): number {
  const { id, payload: text = '' } = payload as { id: string; payload?: string }
  return id.length + text.length + (Array.isArray(vector) ? vector.length * bytesPerNumber : 0)
}

/** The position that a record of a point holds; undefined for one of a release that kept none. */
export function storedPosition(record: QdrantRecord): LogPosition | undefined {
  const { epoch, offset } = record.payload as Partial<LogPosition>
  return epoch === undefined || offset === undefined ? undefined : { epoch, offset }
}

/** Qdrant's filter for ours; deleted points match none. */
export function toQdrantFilter(filter: Filter | undefined) {
  const words = filterTokens(filter).map((value) => ({ key: tokensField, match: { value } }))
  return { must: [{ is_empty: { key: deletedAtField } }, ...words] }
}

/** Qdrant's filter for points that hold no position, or an older one. */
export function olderThan({ epoch, offset }: LogPosition) {
  return {
    should: [
      { is_empty: { key: 'offset' } },
      { key: 'epoch', range: { lt: epoch } },
      {
        must: [
          { key: 'epoch', match: { value: epoch } },
          { key: 'offset', range: { lt: offset } },
        ],
      },
    ],
  }
}

/** JSON of an upsert of these points under one condition. */
export function upsertBody(points: readonly QdrantPoint[], condition: object): BodyPart[] {
  const parts: BodyPart[] = []
  for (const { id, payload, vector } of points) {
    const begin = parts.length === 0 ? '{"points":[' : '},'
    parts.push(`${begin}{"id":"${id}","payload":${JSON.stringify(payload)},"vector":`, vector)
  }
  return [...parts, `}],"update_filter":${JSON.stringify(condition)}}`]
}

/** JSON of a query for the points nearest to `vector`; `rest` is what else it says. */
export function queryBody(vector: Float32Array, rest: object): BodyPart[] {
  return ['{"query":', vector, `,${JSON.stringify(rest).slice(1)}`]
}

/** The names of what a read needs: the id always. */
export function payloadFields(withPayload: boolean | undefined): string[] {
  return withPayload === false ? ['id'] : ['id', 'payload']
}

const pointsPerBatch = 250
/** Qdrant takes 32 MiB; below is an upper estimate of a point's JSON. */
const bytesPerBatch = 24 * 2 ** 20
const bytesPerNumber = 24
const bytesPerToken = 20

/** Cuts points into requests that Qdrant accepts, in their order. */
export function inBatches(points: QdrantPoint[]): QdrantPoint[][] {
  const batches: QdrantPoint[][] = []
  let bytes = 0
  for (const point of points) {
    const { id, payload, tokens } = { payload: '', tokens: [], ...point.payload }
    const size =
      point.vector.length * bytesPerNumber +
      Buffer.byteLength(payload) * 2 +
      Buffer.byteLength(id) * 2 +
      tokens.length * bytesPerToken
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
