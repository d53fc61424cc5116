/** Points of requests: their ids, vectors, texts and payloads, and the body of an upsert, parsed into what is published. */

import { hash } from 'node:crypto'
import { isReserved, reservedId, vectorDimension } from '#engines/vectors/collections.ts'
import { microsOf } from '#engines/vectors/values.ts'
import type { FieldError } from '#lib/errors.ts'
import { pointerPart } from '#lib/path-part.ts'
import { grouped } from '#lib/plural.ts'
import { requestSentence, ruleAndValue, unknownField } from '#lib/schema-faults.ts'
import { fieldErrorsMax, parseJson, validationFailed } from '#runtime/http/validation.ts'

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
function packVector(value: unknown, target: Float32Array, at: number): string | undefined {
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

const oneOfTwo = 'exactly one of vector and text'
export const textCodePointsMax = 16_384

/** A well-formed string of 1 to 16,384 code points; undefined when it is one. */
function textFault(text: unknown): string | undefined {
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

export const pointsMax = 1_000

export interface ParsedUpsert {
  collection: string
  /** Points as they were sent, repeated ids included. */
  sent: number
  /** Without repeats: of an id that came twice the last point counts. */
  ids: string[]
  /** JSON texts, by the order of `ids`. */
  payloads: string[]
  /** Float32 components of all points, one after the other; zeros where a text is. */
  vectors: ArrayBuffer
  /** By the place in `ids`: the texts whose vectors are to be made. */
  texts: ReadonlyMap<number, string>
  /** By the place in `ids`: ms since 1970 of the points that expire. */
  expiries: ReadonlyMap<number, number>
  /** SHA-256 of the body, base64; null unless it was asked for: hashing megabytes is not free. */
  bodyHash: string | null
}

/**
 * Throws AppError `invalid_json`, `validation_failed` with paths or `reserved_id`: a body with any fault is refused as a
 * whole. Whether there is such a collection, the registry knows.
 */
export function parseUpsert(body: Buffer, hashed = false): ParsedUpsert {
  // Only a point's payload may be nested, and its depth is checked with it.
  const root = parseJson(body, { shallow: false })
  const errors: FieldError[] = []
  const { collection, points } = checkRoot(root, errors)
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
    errors.push({ path: '', message: ruleAndValue('an object', root) })
    return { points: [] }
  }
  refuseUnknownKeys(root, ['collection', 'points'], '', errors)
  const { collection, points } = root
  if (typeof collection !== 'string') {
    errors.push({ path: '/collection', message: ruleAndValue('a text', collection) })
  }
  const named = typeof collection === 'string' ? { collection } : {}
  if (!Array.isArray(points) || points.length < 1 || points.length > pointsMax) {
    errors.push({
      path: '/points',
      message: ruleAndValue(`a list of 1 to ${grouped(pointsMax)} points`, points),
    })
    return { ...named, points: [] }
  }
  return { ...named, points }
}

function packPoints(points: unknown[], errors: FieldError[]) {
  const vectors = new Float32Array(points.length * vectorDimension)
  const slots = new Map<string, number>()
  const texts = new Map<number, string>()
  const expiries = new Map<number, number>()
  const ids: string[] = []
  const payloads: string[] = []
  points.forEach((point, n) => {
    if (errors.length >= fieldErrorsMax) return
    const path = `/points/${n}`
    if (!isObject(point)) {
      errors.push({ path, message: ruleAndValue('an object', point) })
      return
    }
    refuseUnknownKeys(point, ['id', 'vector', 'text', 'payload', 'expires_at'], path, errors)
    const idFault = pointIdFault(point.id)
    if (idFault) errors.push({ path: `${path}/id`, message: idFault })
    const id = idFault ? '' : (point.id as string)
    const slot = slots.get(id) ?? slots.size
    slots.set(id, slot)
    ids[slot] = id
    texts.delete(slot)
    expiries.delete(slot)
    const expiry = readExpiry(point.expires_at)
    if (Number.isNaN(expiry)) {
      const message = ruleAndValue('a time in ISO 8601', point.expires_at)
      errors.push({ path: `${path}/expires_at`, message })
    } else if (expiry !== undefined) expiries.set(slot, expiry)
    const text = packContent(point, { vectors, texts, slot, path }, errors)
    const payload = packPayload(point.payload, text)
    if ('fault' in payload) {
      const part = point.payload === undefined ? 'text' : 'payload'
      errors.push({ path: `${path}/${part}`, message: payload.fault })
    } else payloads[slot] = payload.json
  })
  return { ids, payloads, vectors: vectors.buffer as ArrayBuffer, texts, expiries }
}

/** Ms since 1970; null counts as left out. NaN for anything that is no time. */
function readExpiry(value: unknown): number | undefined {
  if (value === undefined || value === null) return undefined
  const micros = typeof value === 'string' ? microsOf(value) : undefined
  return micros === undefined ? Number.NaN : Math.floor(micros / 1_000)
}

/** Packs the vector of a point, or notes its text and returns it. */
function packContent(
  { vector, text }: Record<string, unknown>,
  to: { vectors: Float32Array; texts: Map<number, string>; slot: number; path: string },
  errors: FieldError[],
): string | undefined {
  const { vectors, texts, slot, path } = to
  if ((vector === undefined) === (text === undefined)) {
    errors.push({ path, message: oneOfTwo })
    return undefined
  }
  if (text === undefined) {
    const fault = packVector(vector, vectors, slot * vectorDimension)
    if (fault) errors.push({ path: `${path}/vector`, message: fault })
    return undefined
  }
  const fault = textFault(text)
  if (fault) {
    errors.push({ path: `${path}/text`, message: fault })
    return undefined
  }
  texts.set(slot, text as string)
  return text as string
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
      message: requestSentence(unknownField(key, known)),
    })
    if (errors.length >= fieldErrorsMax) return
  }
}
