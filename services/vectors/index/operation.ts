/** A message of vectors.commands in, the operation on a point out, or why it can never be one. */

import { isCollection, vectorDimension } from '#engines/vectors/collections.ts'
import type { Payload, PointOperation } from '#engines/vectors/port.ts'
import type { Message } from '#runtime/messages.ts'
import type { VectorUpsert } from '#schemas/types.ts'
import { parsePointKey } from '#topics/catalog.ts'

const vectorBytes = vectorDimension * Float32Array.BYTES_PER_ELEMENT

export type Parsed = { collection: string; operation: PointOperation } | { fault: string }

export function parseOperation(message: Message<VectorUpsert>): Parsed {
  const place = parsePointKey(message.key)
  if (!place || place.id === '') return { fault: 'the key names no collection and point' }
  const { collection, id } = place
  if (!isCollection(collection)) return { fault: `there is no collection named ${collection.slice(0, 100)}` }
  if (message.value === null) return { collection, operation: { kind: 'delete', id } }
  const payload = parsePayload(message.value.payload)
  if (!payload) return { fault: 'the payload is not a JSON object' }
  const bytes = message.value.vector
  if (bytes.length !== vectorBytes) {
    return { fault: `the vector has ${bytes.length} bytes instead of ${vectorBytes}` }
  }
  const vector = floatsOf(bytes)
  if (!hasOnlyNumbers(vector)) return { fault: 'the vector has a component that is no number' }
  return { collection, operation: { kind: 'upsert', id, vector, payload } }
}

/** Copies: the decoder's Buffers lie at any address, a Float32Array only at multiples of four. */
function floatsOf(bytes: Buffer): Float32Array {
  const copy = new Uint8Array(bytes.length)
  copy.set(bytes)
  return new Float32Array(copy.buffer)
}

/** A loop: every() with a callback takes several times as long, and this runs for each point. */
function hasOnlyNumbers(vector: Float32Array): boolean {
  for (let i = 0; i < vector.length; i++) if (!Number.isFinite(vector[i])) return false
  return true
}

function parsePayload(text: string): Payload | null {
  try {
    const payload = JSON.parse(text) as unknown
    const isObject = payload !== null && typeof payload === 'object' && !Array.isArray(payload)
    return isObject ? (payload as Payload) : null
  } catch {
    return null
  }
}
