/** Points as Qdrant answers them. */

import type { LogPosition, Payload, ScrolledPoint } from '../port.ts'
import { deletedAtField, embedderField, expiresAtField } from './filters.ts'

export interface QdrantRecord {
  id: string
  payload?: unknown
  vector?: unknown
}

export const positionFields = ['epoch', 'offset']

/** Fields that a read asks for: id, embedder and expiry always. */
export function payloadFields(withPayload: boolean | undefined): string[] {
  return ['id', embedderField, expiresAtField, ...(withPayload === false ? [] : ['payload'])]
}

interface StoredFields {
  id: string
  payload?: string
  [embedderField]?: string
  [expiresAtField]?: number
  [deletedAtField]?: number
}

export function fromQdrantRecord(record: QdrantRecord): ScrolledPoint {
  const stored = record.payload as StoredFields
  return {
    id: stored.id,
    ...(stored.embedder === undefined ? {} : { embedder: stored.embedder }),
    ...(stored.expiresAt === undefined ? {} : { expiresAt: stored.expiresAt }),
    ...(stored.payload === undefined ? {} : { payload: JSON.parse(stored.payload) as Payload }),
    ...(Array.isArray(record.vector) ? { vector: Float32Array.from(record.vector as number[]) } : {}),
  }
}

/** Whether reads show the point of a record that was read with `deletedAt` and `expiresAt`. */
export function isShown(record: QdrantRecord): boolean {
  const { deletedAt, expiresAt } = record.payload as StoredFields
  return deletedAt === undefined && (expiresAt === undefined || expiresAt > Date.now())
}

/** The position that a record of a point holds; undefined for one of a release that kept none. */
export function storedPosition(record: QdrantRecord): LogPosition | undefined {
  const { epoch, offset } = record.payload as Partial<LogPosition>
  return epoch === undefined || offset === undefined ? undefined : { epoch, offset }
}
