/** The body of an upsert, checked and parsed: ids, vectors and payloads of its points. */

import { hash } from 'node:crypto'
import { isReserved, reservedId, vectorDimension } from '#engines/vectors/collections.ts'
import { microsOf } from '#engines/vectors/values.ts'
import { AppError, type FieldError } from '#lib/errors.ts'
import { pointerPart } from '#lib/path-part.ts'
import { grouped } from '#lib/plural.ts'
import { requestSentence, ruleAndValue, unknownField } from '#lib/schema-faults.ts'
import { fieldErrorsMax, parseJson, validationFailed } from '#runtime/http/validation.ts'
import { isObject, normFault, oneOfTwo, packPayload, packVector, pointIdFault, textFault } from './points.ts'
import { setVectorsAside } from './vectors-aside.ts'

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

type Parsed = Omit<ParsedUpsert, 'bodyHash'>

/**
 * Throws AppError `invalid_json`, `validation_failed` with paths or `reserved_id`: a body with any fault is refused as a
 * whole. Whether there is such a collection, the registry knows.
 */
export function parseUpsert(body: Buffer, hashed = false): ParsedUpsert {
  const parsed = parseQuickly(body) ?? parseRoot(parseBody(body), packVector)
  return { ...parsed, bodyHash: hashed ? hash('sha256', body, 'base64') : null }
}

/** Undefined for a body that is unusual or has any fault: then the other way reads it, and names the fault. */
function parseQuickly(body: Buffer): Parsed | undefined {
  const aside = setVectorsAside(body)
  if (!aside) return undefined
  let written = 0
  try {
    const parsed = parseRoot(parseBody(aside.rest), (number, target, to) => {
      written++
      const squares = typeof number === 'number' ? aside.write(number, target, to) : Number.NaN
      return Number.isNaN(squares) ? 'no vector' : normFault(squares)
    })
    // Where a name came twice, JSON.parse dropped one that nobody has looked at.
    return written === aside.count ? parsed : undefined
  } catch (error) {
    if (error instanceof AppError) return undefined
    throw error
  }
}

/** Only a point's payload may be nested, and its depth is checked with it. */
function parseBody(body: Buffer): unknown {
  return parseJson(body, { shallow: false })
}

function parseRoot(root: unknown, pack: typeof packVector): Parsed {
  const errors: FieldError[] = []
  const { collection, points } = checkRoot(root, errors)
  const packed = packPoints(points, pack, errors)
  if (errors.length > 0) throw validationFailed(errors)
  const reserved = packed.ids.find((id) => isReserved(collection as string, id))
  if (reserved !== undefined) throw reservedId()
  return { collection: collection as string, sent: points.length, ...packed }
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

function packPoints(points: unknown[], pack: typeof packVector, errors: FieldError[]) {
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
    const text = packContent(point, { pack, vectors, texts, slot, path }, errors)
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
  to: {
    pack: typeof packVector
    vectors: Float32Array
    texts: Map<number, string>
    slot: number
    path: string
  },
  errors: FieldError[],
): string | undefined {
  const { pack, vectors, texts, slot, path } = to
  if ((vector === undefined) === (text === undefined)) {
    errors.push({ path, message: oneOfTwo })
    return undefined
  }
  if (text === undefined) {
    const fault = pack(vector, vectors, slot * vectorDimension)
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
