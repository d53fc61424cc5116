/**
 * Calls Qdrant over REST. Bodies that carry vectors are written straight into bytes: `JSON.stringify` writes a float32 with the 17
 * digits of a double, which takes several times as long to write, to send and to read.
 */

import { Agent } from 'undici'
import { pathPart } from '#lib/path-part.ts'
import { createAttempts, type QdrantLog, Refused } from './attempts.ts'

/**
 * Runs one request: `path` begins with a slash, `body` is JSON. Resolves with the `result` of the answer, of the form that
 * Qdrant's documentation says. Throws as attempts do.
 */
export type Call = <T>(
  what: string,
  method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE',
  path: string,
  body?: object | readonly BodyPart[],
  signal?: AbortSignal,
) => Promise<T>

/** Opens the connections to Qdrant. The key goes into a header and nowhere else. */
export function openCalls({ url, apiKey }: { url: string; apiKey?: string | undefined }, log: QdrantLog) {
  const { origin, pathname } = new URL(url)
  const prefix = pathname.replace(/\/+$/, '')
  const headers = {
    // A compressed answer costs about 40 ms more than a plain one.
    'accept-encoding': 'identity',
    'content-type': 'application/json',
    ...(apiKey ? { 'api-key': apiKey } : {}),
  }
  const agent = new Agent()
  const attempt = createAttempts({ log, setting: 'QDRANT_URL', isBrokenConnection })

  async function send(method: string, path: string, body: Buffer | null, signal: AbortSignal) {
    const answer = await agent.request({ origin, path: prefix + path, method, headers, body, signal })
    const text = await answer.body.text()
    if (answer.statusCode !== 200)
      throw new Refused(answer.statusCode, reasonIn(text) ?? `Qdrant answered ${answer.statusCode}`)
    const whole = JSON.parse(text)
    // The version alone comes without a frame.
    return 'result' in whole ? whole.result : whole
  }
  return {
    /** Calls of which each request ends after `limitMs`. */
    within:
      (limitMs: number): Call =>
      async (what, method, path, body, signal) => {
        const bytes = body ? encodeBody(Array.isArray(body) ? body : [JSON.stringify(body)]) : null
        return attempt({ what, limitMs, signal }, (ends) => send(method, path, bytes, ends))
      },
    close: () => agent.destroy(),
  }
}

/** Address of a collection. */
export function pathOf(collection: string): string {
  return `/collections/${pathPart(collection)}`
}

function reasonIn(text: string): string | undefined {
  try {
    return JSON.parse(text).status.error
  } catch {
    return undefined
  }
}

function isBrokenConnection(error: unknown): boolean {
  const { code } = error as { code?: unknown }
  return code === 'ECONNRESET' || code === 'EPIPE' || code === 'UND_ERR_SOCKET'
}

/** Pieces of JSON text, and vectors, which become arrays of numbers. */
export type BodyPart = string | Float32Array

/** As of -0.0000012345678901234567, and the comma behind it. */
const numberBytesMax = 26
/** From here to 1, twelve decimals tell neighbouring float32 values apart, also when the last one is cut off. */
const decimalsFrom = 2 ** -15
const million = 1e6
const [comma, minus, point, zero, open, close] = [0x2c, 0x2d, 0x2e, 0x30, 0x5b, 0x5d] as const
/** The three digits of each number below a thousand. */
const digits = Uint8Array.from({ length: 3_000 }, (_, at) => {
  const place = [100, 10, 1][at % 3] as number
  return zero + (Math.trunc(Math.trunc(at / 3) / place) % 10)
})

/** Every number reads back as the same float32. */
export function encodeBody(parts: readonly BodyPart[]): Buffer {
  const bytes = Buffer.allocUnsafe(parts.reduce((sum, part) => sum + bytesMax(part), 0))
  let at = 0
  for (const part of parts) {
    at = typeof part === 'string' ? at + bytes.write(part, at) : writeVector(part, bytes, at)
  }
  return bytes.subarray(0, at)
}

function bytesMax(part: BodyPart): number {
  return typeof part === 'string' ? Buffer.byteLength(part) : part.length * numberBytesMax + 2
}

function writeVector(vector: Float32Array, bytes: Buffer, begin: number): number {
  let at = begin
  bytes[at++] = open
  for (let n = 0; n < vector.length; n++) {
    if (n > 0) bytes[at++] = comma
    const value = vector[n]!
    const size = value < 0 ? -value : value
    if (size >= 1 || size < decimalsFrom) {
      at += bytes.write(String(value), at)
      continue
    }
    if (value < 0) bytes[at++] = minus
    // A float32 times a million, and the rest of it times a million again, are exact in a double. `| 0` makes integers of them:
    // doubles would each be an object, nine for every number written.
    const high = (size * million) | 0
    const rest = ((size * million - high) * million + 0.5) | 0
    const low = rest < million ? rest : million - 1
    bytes[at++] = zero
    bytes[at++] = point
    at = writeSix(high, bytes, at)
    at = writeSix(low, bytes, at)
  }
  bytes[at++] = close
  return at
}

function writeSix(number: number, bytes: Buffer, at: number): number {
  const thousands = (number / 1_000) | 0
  const left = thousands * 3
  const right = (number - thousands * 1_000) * 3
  bytes[at] = digits[left]!
  bytes[at + 1] = digits[left + 1]!
  bytes[at + 2] = digits[left + 2]!
  bytes[at + 3] = digits[right]!
  bytes[at + 4] = digits[right + 1]!
  bytes[at + 5] = digits[right + 2]!
  return at + 6
}
