/**
 * What a record of vectors.commands asks for. The gateway has checked its points; other producers may write anything,
 * so whatever does not have the form of a point is reported here, and what an engine cannot keep is refused by the
 * engine.
 */

import { isCollection, vectorDimension } from '#engines/vectors/collections.ts'
import type { Payload, PointOperation } from '#engines/vectors/port.ts'
import type { Message } from '#runtime/publish/messages.ts'
import type { VectorUpsert } from '#schemas/types.ts'
import { parsePointKey } from '#topics/catalog.ts'

/** Header of the number that all records of one request share; failure rows are kept under it. */
export const operationHeader = 'operation'

const vectorBytes = vectorDimension * Float32Array.BYTES_PER_ELEMENT

export type Parsed = { collection: string; operation: PointOperation } | { fault: string }

/** `epoch` is that of the topic the message was read from. */
export function parseOperation(message: Message<VectorUpsert>, epoch: number): Parsed {
  const key = parsePointKey(message.key)
  if (!key || key.id === '') return { fault: 'the key names no collection and point' }
  const { collection, id } = key
  if (!isCollection(collection)) return { fault: `there is no collection named ${collection.slice(0, 100)}` }
  const position = { epoch, offset: message.offset }
  if (message.value === null) return { collection, operation: { kind: 'delete', id, position } }
  const payload = parsePayload(message.value.payload)
  if (!payload) return { fault: 'the payload is not a JSON object' }
  const bytes = message.value.vector
  if (bytes.length !== vectorBytes) {
    return { fault: `the vector has ${bytes.length} bytes instead of ${vectorBytes}` }
  }
  return { collection, operation: { kind: 'upsert', id, position, vector: floatsOf(bytes), payload } }
}

/** A view where that is possible: a Float32Array begins at a multiple of four, a Buffer anywhere. */
function floatsOf(bytes: Buffer): Float32Array {
  const size = Float32Array.BYTES_PER_ELEMENT
  const { buffer, byteOffset } = bytes.byteOffset % size === 0 ? bytes : new Uint8Array(bytes)
  return new Float32Array(buffer, byteOffset, bytes.length / size)
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
