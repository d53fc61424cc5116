/** Calls Qdrant with time limits and repeats, and translates its faults; its own text goes to the log only. */

import { QdrantClient } from '@qdrant/js-client-rest'
import type { Logger } from 'pino'
import { Agent } from 'undici'
import { backoffMs, sleep } from '#lib/backoff.ts'
import { AppError, describeError } from '#lib/errors.ts'
import type { Closeable } from '#lib/resource.ts'
import { type BodyPart, encodeBody } from './vector-body.ts'

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

/** Requests that carry vectors. The client asks a function for each number of a body, and copies the whole three times. */
export interface VectorSender extends Closeable {
  /**
   * The `result` of Qdrant's answer, of the form that its documentation says. Rejects with what `createCall`
   * translates. `path` begins with a slash.
   */
  send<T>(method: 'PUT' | 'POST', path: string, body: readonly BodyPart[], signal: AbortSignal): Promise<T>
}

export function createVectorSender(address: Omit<QdrantAddress, 'timeoutMs'>): VectorSender {
  const { origin, prefix, headers } = partsOf(address)
  const agent = new Agent()
  return {
    async send<T>(method: string, path: string, body: readonly BodyPart[], signal: AbortSignal) {
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
  return unavailable(error)
}

export function unavailable(cause?: unknown): AppError {
  return new AppError(
    'vector_engine_unavailable',
    'The vector engine does not answer; try again in a second.',
    {
      retryAfter: 1,
      cause,
    },
  )
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
