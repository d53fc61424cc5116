/**
 * The form in which points and log messages travel between threads: texts in arrays, all vectors in one buffer that is moved, not
 * copied.
 */

import { Transferred } from '#lib/worker-rpc.ts'
import type { Payload, PointOperation } from '../port.ts'
import type { StoredPoint, Write } from './points-table.ts'

export interface PackedWrites {
  ids: string[]
  epochs: number[]
  offsets: number[]
  /** JSON text; null for a delete. */
  payloads: (string | null)[]
  /** The vectors of the upserts, one after the other. */
  vectors: Float32Array<ArrayBuffer>
  dimension: number
}

export interface PackedPoints {
  ids: string[]
  /** Those of the first `filled` points. */
  payloads: string[] | null
  vectors: Float32Array<ArrayBuffer> | null
  filled: number
}

export function packWrites(operations: PointOperation[], dimension: number): PackedWrites {
  const upserts = operations.filter((operation) => operation.kind === 'upsert')
  const vectors = new Float32Array(upserts.length * dimension)
  upserts.forEach((operation, i) => {
    vectors.set(operation.vector, i * dimension)
  })
  const payloads = operations.map((each) => (each.kind === 'upsert' ? JSON.stringify(each.payload) : null))
  return {
    ids: operations.map((operation) => operation.id),
    epochs: operations.map((operation) => operation.position.epoch),
    offsets: operations.map((operation) => operation.position.offset),
    payloads,
    vectors,
    dimension,
  }
}

export function unpackWrites(packed: PackedWrites): Write[] {
  const { ids, epochs, offsets, payloads, vectors, dimension } = packed
  let upserts = 0
  return ids.map((id, i) => {
    const payload = payloads[i]!
    const position = { epoch: epochs[i]!, offset: offsets[i]! }
    if (payload === null) return { id, position, payload: null, vector: null }
    const from = upserts++ * dimension
    return { id, position, payload, vector: vectors.subarray(from, from + dimension) }
  })
}

interface Wanted {
  withPayload?: boolean
  withVector?: boolean
}

/** A float32 as JSON has about so many characters. */
const bytesPerNumber = 20

/** Roughly: characters of its JSON. */
export function jsonBytes({ id, payload, vector }: StoredPoint, wanted: Wanted): number {
  const ofPayload = wanted.withPayload === false ? 0 : payload.length
  return id.length + ofPayload + (wanted.withVector === true ? vector.length * bytesPerNumber : 0)
}

/** Points behind `bytesMax` go without payload and vector. */
export function packPoints(
  points: StoredPoint[],
  wanted: Wanted,
  bytesMax = Number.POSITIVE_INFINITY,
): Transferred<PackedPoints> {
  let bytes = 0
  const over = points.findIndex((point, i) => {
    bytes += jsonBytes(point, wanted)
    return i > 0 && bytes > bytesMax
  })
  const first = over === -1 ? points : points.slice(0, over)
  const ids = points.map((point) => point.id)
  const payloads = wanted.withPayload === false ? null : first.map((point) => point.payload)
  const filled = first.length
  if (wanted.withVector !== true) return new Transferred({ ids, payloads, vectors: null, filled }, [])
  const dimension = points[0]?.vector.length ?? 0
  const vectors = new Float32Array(filled * dimension)
  first.forEach((point, i) => {
    vectors.set(point.vector, i * dimension)
  })
  return new Transferred({ ids, payloads, vectors, filled }, [vectors.buffer])
}

export function unpackPoints({ ids, payloads, vectors, filled }: PackedPoints) {
  const dimension = vectors ? vectors.length / Math.max(1, filled) : 0
  return ids.map((id, i) => ({
    id,
    ...(payloads && i < filled ? { payload: JSON.parse(payloads[i]!) as Payload } : {}),
    ...(vectors && i < filled ? { vector: vectors.slice(i * dimension, (i + 1) * dimension) } : {}),
  }))
}

export type LogLevel = 'info' | 'warn' | 'error'
export type MessageLog = (level: LogLevel, message: string, fields?: Record<string, unknown>) => void
