/** What makes a point valid: its collection, id, vector and payload. Also how much of an answer a point may take. */

import {
  type CollectionName,
  collections,
  isCollection,
  vectorDimension,
} from '#engines/vectors/collections.ts'
import { AppError } from '#lib/errors.ts'
import { validationFailed } from '#runtime/http/validation.ts'

export function requireCollection(name: string): CollectionName {
  if (isCollection(name)) return name
  throw collectionNotFound(name)
}

export function collectionNotFound(name: string): AppError {
  const cut = name.length > 64 ? `${name.slice(0, 64).toWellFormed()}…` : name
  return new AppError(
    'collection_not_found',
    `There is no collection named ${JSON.stringify(cut)}: there are ${collections.join(', ')}.`,
  )
}

const idCodePointsMax = 512

/** A string of 1 to 512 code points without NUL; undefined when it is one. */
export function pointIdFault(id: unknown): string | undefined {
  if (typeof id !== 'string') return 'must be a string'
  if (id === '') return 'must not be empty'
  if (id.length > idCodePointsMax && isTooLong(id)) return `must have at most ${idCodePointsMax} characters`
  if (id.includes('\0')) return 'must not contain NUL'
  if (!id.isWellFormed()) return 'has half of a surrogate pair'
  return undefined
}

/** Counts code points without making an array of a text that may be huge. */
function isTooLong(id: string): boolean {
  if (id.length > 2 * idCodePointsMax) return true
  let codePoints = 0
  for (const _ of id) codePoints += 1
  return codePoints > idCodePointsMax
}

const float32Max = 3.4028234663852886e38
/** Below this a float32 loses precision: an engine may take a squared norm that small for zero. */
const float32MinNormal = 1.1754943508222875e-38

/**
 * Writes a vector into `target` at `at` and returns undefined, or its fault. Engines take the norm in
 * float32, so it must neither overflow nor vanish there.
 */
export function packVector(value: unknown, target: Float32Array, at: number): string | undefined {
  if (!Array.isArray(value)) return `must be an array of ${vectorDimension} numbers`
  if (value.length !== vectorDimension) {
    return `must have ${vectorDimension} numbers, not ${value.length}`
  }
  let squares = 0
  for (let i = 0; i < vectorDimension; i++) {
    const number: unknown = value[i]
    if (typeof number !== 'number') return `must hold numbers only: component ${i} is none`
    const component = Math.fround(number)
    if (component - component !== 0) return `must fit float32: component ${i} does not`
    target[at + i] = component
    squares += component * component
  }
  if (squares > float32Max) return 'must have a norm that fits float32'
  if (squares === 0) return 'must not be the zero vector'
  if (squares < float32MinNormal) return 'must have a norm that float32 can distinguish from zero'
  return undefined
}

/** The vector that a search is given. Throws AppError `validation_failed` at /vector. */
export function readQueryVector(value: unknown): Float32Array {
  const vector = new Float32Array(vectorDimension)
  const fault = packVector(value, vector, 0)
  if (fault) throw validationFailed([{ path: '/vector', message: fault }])
  return vector
}

const payloadBytesMax = 64 * 1024
/** What may be in a point's JSON besides its payload: 512 characters, 1,536 numbers. */
const pointIdBytesMax = 512 * 6
const vectorBytesMax = 1_536 * 24
/** Points that are read at once for an answer: about 1 MiB at most. */
export const pointsPerPiece = 16

/** What a hit may take in an answer. */
export function hitBytesMax({ withPayload, withVector }: { withPayload?: boolean; withVector?: boolean }) {
  return pointIdBytesMax + (withPayload ? payloadBytesMax : 0) + (withVector ? vectorBytesMax : 0)
}
/** Deep enough for any record; engines refuse nesting somewhere beyond a hundred levels. */
const depthMax = 64

type PackedPayload = { text: string } | { fault: string; path?: string }

export function packPayload(value: unknown): PackedPayload {
  if (value === undefined) return { text: '{}' }
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    return { fault: 'must be an object' }
  }
  const fault = faultWithin(value)
  if (fault) return { fault }
  const text = JSON.stringify(value)
  if (text.length > payloadBytesMax || Buffer.byteLength(text) > payloadBytesMax) {
    return { fault: `must have at most ${payloadBytesMax} bytes as JSON` }
  }
  return { text }
}

/** JSON.parse turns 1e999 into Infinity, which JSON cannot write again. */
function faultWithin(root: object): string | undefined {
  let level: object[] = [root]
  for (let depth = 1; level.length > 0; depth++) {
    if (depth > depthMax) return `must not be nested deeper than ${depthMax} levels`
    const next: object[] = []
    for (const item of level) {
      for (const child of Object.values(item)) {
        if (typeof child === 'object' && child !== null) next.push(child)
        else if (typeof child === 'number' && !Number.isFinite(child)) {
          return 'must hold numbers that fit a double only'
        }
      }
    }
    level = next
  }
  return undefined
}
