/**
 * Calls Qdrant with time limits and repeats, and translates its faults; its own text goes to the log only. Bodies that carry vectors
 * are written straight into bytes: `JSON.stringify` writes a float32 with the 17 digits of a double, which takes several times
 * as long to write, to send and to read.
 */

import { QdrantClient } from '@qdrant/js-client-rest'
import type { Logger } from 'pino'
import { Agent } from 'undici'
import { backoffMs, sleep } from '#lib/backoff.ts'
import { AppError, describeError } from '#lib/errors.ts'
import { vectorsUnavailable } from '../collections.ts'

interface QdrantAddress {
  url: string
  apiKey?: string
  /** Limit of each request; null where each brings its own. */
  timeoutMs: number | null
}

export type QdrantLog = Pick<Logger, 'info' | 'warn' | 'error'>

/** Every call is idempotent, so one whose connection broke is made again. */
const attemptsMax = 3
const retryWait = { baseMs: 50, maxMs: 400 }

/** What Qdrant answers when a collection is missing (or its alias is just being put elsewhere). */
export class CollectionMissing extends Error {
  override readonly name = 'CollectionMissing'
}

/** The key goes into a header and nowhere else: the client's own option prints a warning to the console. */
export function createClient(address: QdrantAddress): QdrantClient {
  const { origin, prefix, headers } = partsOf(address)
  return new QdrantClient({
    url: origin,
    ...(prefix ? { prefix } : {}),
    headers,
    timeout: address.timeoutMs ?? Number.POSITIVE_INFINITY,
    checkCompatibility: false,
  })
}

export type VectorSender = ReturnType<typeof createVectorSender>

/** Requests that carry vectors. The client asks a function for each number of a body, and copies the whole three times. */
export function createVectorSender(address: Omit<QdrantAddress, 'timeoutMs'>) {
  const { origin, prefix, headers } = partsOf(address)
  const agent = new Agent()
  return {
    /**
     * The `result` of Qdrant's answer, of the form that its documentation says. Rejects with what `createCall`
     * translates. `path` begins with a slash.
     */
    async send<T>(method: string, path: string, body: readonly BodyPart[], signal: AbortSignal): Promise<T> {
      const answer = await agent.request({
        origin,
        path: prefix + path,
        method,
        headers: { ...headers, 'content-type': 'application/json' },
        body: encodeBody(body),
        signal,
      })
      const text = await answer.body.text()
      if (answer.statusCode !== 200) throw new Refused(answer.statusCode, text)
      return (JSON.parse(text) as { result: T }).result
    },
    close: () => agent.destroy(),
  }
}

/** An answer that says no, in the form of the client's own errors. */
class Refused extends Error {
  readonly status: number
  readonly data: unknown

  constructor(status: number, text: string) {
    super(`Qdrant answered ${status}`)
    this.status = status
    this.data = readJson(text)
  }
}

function readJson(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

function partsOf({ url, apiKey }: Omit<QdrantAddress, 'timeoutMs'>) {
  const { origin, pathname } = new URL(url)
  // A compressed answer costs about 40 ms more than a plain one.
  const headers: Record<string, string> = { 'accept-encoding': 'identity' }
  if (apiKey) headers['api-key'] = apiKey
  return { origin, prefix: pathname.replace(/\/+$/, ''), headers }
}

export type Call = <T>(what: string, work: () => Promise<T>) => Promise<T>

/**
 * Runs one request. Throws CollectionMissing, AppError `validation_failed` for what Qdrant refuses as malformed, and
 * `vector_engine_unavailable` where waiting may help.
 */
export function createCall(log: QdrantLog): Call {
  return async function call<T>(what: string, work: () => Promise<T>): Promise<T> {
    for (let attempt = 0; ; attempt++) {
      try {
        return await work()
      } catch (error) {
        if (attempt + 1 < attemptsMax && isBrokenConnection(error)) {
          await sleep(backoffMs(attempt, retryWait))
          continue
        }
        throw translate(what, error, log)
      }
    }
  }
}

function translate(what: string, error: unknown, log: QdrantLog): Error {
  const status = (error as { status?: number }).status
  const said = (error as { data?: { status?: { error?: unknown } } }).data?.status?.error
  const cause = describeError(typeof said === 'string' ? new Error(said) : rootOf(error))
  if (status === 404) return new CollectionMissing()
  log.error({ call: what, status, cause }, 'vectors.qdrant-failed')
  if (status === 400 || status === 413 || status === 422) {
    return new AppError('validation_failed', 'The vector engine refuses what it was sent.')
  }
  return vectorsUnavailable(error)
}

/** The server closed an idle connection just when it was used again, or went away in the middle. */
function isBrokenConnection(error: unknown): boolean {
  const code = (rootOf(error) as { code?: unknown }).code
  return code === 'ECONNRESET' || code === 'EPIPE' || code === 'UND_ERR_SOCKET'
}

/** `fetch` says "fetch failed" and hides the reason behind it. */
function rootOf(error: unknown): unknown {
  let root = error
  for (let depth = 0; depth < 5 && root instanceof Error && root.cause instanceof Error; depth++)
    root = root.cause
  return root
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
    // A float32 times a million, and the rest of it times a million again, are exact in a double.
    const high = Math.trunc(size * million)
    const low = Math.min(Math.round((size * million - high) * million), million - 1)
    bytes[at++] = zero
    bytes[at++] = point
    at = writeSix(high, bytes, at)
    at = writeSix(low, bytes, at)
  }
  bytes[at++] = close
  return at
}

function writeSix(number: number, bytes: Buffer, at: number): number {
  const thousands = Math.trunc(number / 1_000)
  const [left, right] = [thousands * 3, (number - thousands * 1_000) * 3]
  bytes[at] = digits[left]!
  bytes[at + 1] = digits[left + 1]!
  bytes[at + 2] = digits[left + 2]!
  bytes[at + 3] = digits[right]!
  bytes[at + 4] = digits[right + 1]!
  bytes[at + 5] = digits[right + 2]!
  return at + 6
}
