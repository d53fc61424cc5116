/** Points of requests: their ids, vectors, texts and payloads. */

import { vectorDimension } from '#engines/vectors/collections.ts'
import { grouped } from '#lib/plural.ts'
import { ruleAndValue } from '#lib/schema-faults.ts'
import { validationFailed } from '#runtime/http/validation.ts'

const idCodePointsMax = 512

/** A string of 1 to 512 code points without NUL; undefined when it is one. */
export function pointIdFault(id: unknown): string | undefined {
  if (typeof id !== 'string' || id === '') {
    return ruleAndValue(`a text of 1 to ${idCodePointsMax} characters`, id)
  }
  if (isLonger(id, idCodePointsMax)) return `at most ${idCodePointsMax} characters`
  if (id.includes('\0')) return 'a text without the character NUL'
  if (!id.isWellFormed()) return 'has half of a surrogate pair'
  return undefined
}

/** Counts code points without making an array of a text that may be huge. */
function isLonger(text: string, codePointsMax: number): boolean {
  if (text.length <= codePointsMax) return false
  if (text.length > 2 * codePointsMax) return true
  let codePoints = 0
  for (const _ of text) codePoints += 1
  return codePoints > codePointsMax
}

const float32Max = 3.4028234663852886e38
/** Below this a float32 loses precision: an engine may take a squared norm that small for zero. */
const float32MinNormal = 1.1754943508222875e-38

/**
 * Writes a vector into `target` at `at` and returns undefined, or its fault. Engines take the norm in
 * float32, so it must neither overflow nor vanish there.
 */
export function packVector(value: unknown, target: Float32Array, at: number): string | undefined {
  const numbers = `${grouped(vectorDimension)} numbers`
  if (!Array.isArray(value)) return ruleAndValue(`a list of ${numbers}`, value)
  if (value.length !== vectorDimension) return ruleAndValue(numbers, value.length)
  let squares = 0
  for (let i = 0; i < vectorDimension; i++) {
    const number: unknown = value[i]
    if (typeof number !== 'number') return `numbers only: component ${i} is none`
    const component = Math.fround(number)
    if (component - component !== 0) return `must fit float32: component ${i} does not`
    target[at + i] = component
    squares += component * component
  }
  return normFault(squares)
}

/** The fault of a vector with this sum of squares, if it has one. */
export function normFault(squares: number): string | undefined {
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

/**
 * The vector or the text of a search; null counts as left out. Throws AppError `validation_failed` at /vector or /text, or
 * at the root when there are both or none.
 */
export function readQuestion({ vector, text }: { vector?: unknown; text?: unknown }): Float32Array | string {
  if ((vector == null) === (text == null)) throw validationFailed([{ path: '', message: oneOfTwo }])
  if (text == null) return readQueryVector(vector)
  const fault = textFault(text)
  if (fault) throw validationFailed([{ path: '/text', message: fault }])
  return text as string
}

export const oneOfTwo = 'exactly one of vector and text'
export const textCodePointsMax = 16_384

/** A well-formed string of 1 to 16,384 code points; undefined when it is one. */
export function textFault(text: unknown): string | undefined {
  if (typeof text !== 'string' || text === '') {
    return ruleAndValue(`a text of 1 to ${grouped(textCodePointsMax)} characters`, text)
  }
  if (isLonger(text, textCodePointsMax)) return `at most ${grouped(textCodePointsMax)} characters`
  return text.isWellFormed() ? undefined : 'has half of a surrogate pair'
}

export const payloadBytesMax = 64 * 1024
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

/** The payload as JSON text; the text of a point becomes part of it. */
export function packPayload(value: unknown, text: string | undefined): { json: string } | { fault: string } {
  if (value === undefined && text === undefined) return { json: '{}' }
  if (value !== undefined && !isObject(value)) return { fault: ruleAndValue('an object', value) }
  const fault = value && faultWithin(value)
  if (fault) return { fault }
  if (text !== undefined && value && Object.hasOwn(value, 'text') && value.text !== text) {
    return { fault: 'must not have a text of its own: that of the point is kept there' }
  }
  const json = JSON.stringify(text === undefined ? value : { ...value, text })
  if (json.length > payloadBytesMax || Buffer.byteLength(json) > payloadBytesMax) {
    const whole = text === undefined ? '' : ', the text with it'
    return { fault: `at most ${grouped(payloadBytesMax)} bytes as JSON${whole}` }
  }
  return { json }
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

export function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
