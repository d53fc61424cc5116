/**
 * Parses and checks the body of an upsert, on the event loop or, for big bodies, in a thread. Nothing checks points
 * again.
 */

import { hash } from 'node:crypto'
import { isCollection, vectorDimension } from '#engines/vectors/collections.ts'
import type { FieldError } from '#lib/errors.ts'
import { parseJson } from '#runtime/http/json-body.ts'
import { fieldErrorsMax, pointerPart, validationFailed } from '#runtime/http/validation.ts'
import { isReserved, reservedId } from '#services/access/audit/notes.ts'
import { collectionNotFound, packPayload, packVector, pointIdFault } from './point.ts'

export const pointsMax = 1_000

export interface ParsedUpsert {
  collection: string
  /** Points as they were sent, repeated ids included. */
  sent: number
  /** Without repeats: of an id that came twice the last point counts. */
  ids: string[]
  /** JSON texts, by the order of `ids`. */
  payloads: string[]
  /** Float32 components of all points, one after the other. */
  vectors: ArrayBuffer
  /** SHA-256 of the body, base64; null unless it was asked for: hashing megabytes is not free. */
  bodyHash: string | null
}

/**
 * Throws AppError `invalid_json`, `validation_failed` with paths, `collection_not_found` or `reserved_id`: a body with
 * any fault is refused as a whole.
 */
export function parseUpsert(body: Buffer, hashed = false): ParsedUpsert {
  // Only a point's payload may be nested, and its depth is checked with it.
  const root = parseJson(body, { shallow: false })
  const errors: FieldError[] = []
  const { collection, points } = checkRoot(root, errors)
  if (collection !== undefined && !isCollection(collection)) throw collectionNotFound(collection)
  const packed = packPoints(points, errors)
  if (errors.length > 0) throw validationFailed(errors)
  const reserved = packed.ids.find((id) => isReserved(collection as string, id))
  if (reserved !== undefined) throw reservedId()
  return {
    collection: collection as string,
    sent: points.length,
    ...packed,
    bodyHash: hashed ? hash('sha256', body, 'base64') : null,
  }
}

function checkRoot(root: unknown, errors: FieldError[]): { collection?: string; points: unknown[] } {
  if (!isObject(root)) {
    errors.push({ path: '', message: 'must be an object' })
    return { points: [] }
  }
  refuseUnknownKeys(root, ['collection', 'points'], '', errors)
  const { collection, points } = root
  if (typeof collection !== 'string') errors.push({ path: '/collection', message: 'must be a string' })
  const named = typeof collection === 'string' ? { collection } : {}
  if (!Array.isArray(points) || points.length < 1 || points.length > pointsMax) {
    errors.push({ path: '/points', message: `must be an array of 1 to ${pointsMax} points` })
    return { ...named, points: [] }
  }
  return { ...named, points }
}

function packPoints(points: unknown[], errors: FieldError[]) {
  const vectors = new Float32Array(points.length * vectorDimension)
  const slots = new Map<string, number>()
  const ids: string[] = []
  const payloads: string[] = []
  points.forEach((point, n) => {
    if (errors.length >= fieldErrorsMax) return
    const path = `/points/${n}`
    if (!isObject(point)) {
      errors.push({ path, message: 'must be an object' })
      return
    }
    refuseUnknownKeys(point, ['id', 'vector', 'payload'], path, errors)
    const idFault = pointIdFault(point.id)
    if (idFault) errors.push({ path: `${path}/id`, message: idFault })
    const id = idFault ? '' : (point.id as string)
    const slot = slots.get(id) ?? slots.size
    slots.set(id, slot)
    const vectorFault = packVector(point.vector, vectors, slot * vectorDimension)
    if (vectorFault) errors.push({ path: `${path}/vector`, message: vectorFault })
    const payload = packPayload(point.payload)
    if ('fault' in payload) errors.push({ path: `${path}/payload`, message: payload.fault })
    else payloads[slot] = payload.text
    ids[slot] = id
  })
  return { ids, payloads, vectors: vectors.buffer as ArrayBuffer }
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

function refuseUnknownKeys(
  value: Record<string, unknown>,
  known: string[],
  path: string,
  errors: FieldError[],
): void {
  for (const key of Object.keys(value)) {
    if (known.includes(key)) continue
    errors.push({
      path: path + pointerPart(key).slice(0, 100).toWellFormed(),
      message: 'is not a known field',
    })
    if (errors.length >= fieldErrorsMax) return
  }
}
