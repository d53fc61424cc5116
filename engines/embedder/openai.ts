/** Makes vectors of texts through any endpoint with the API of OpenAI's `/v1/embeddings`. */

import { backoffMs, sleep } from '#lib/backoff.ts'
import { AppError, describeError } from '#lib/errors.ts'
import type { Embedder } from './port.ts'

interface OpenAiOptions {
  /** The endpoint itself (`…/embeddings`) or its base (`…/v1`, or the host alone). */
  url: string
  apiKey?: string | undefined
  /** Default `text-embedding-3-small`, which has 1536 dimensions. */
  model?: string | undefined
  /** Asks the model for shorter vectors, at most 1536. Only for models that were trained for it. */
  dimensions?: number | undefined
  /** Time limit of one request. Default 10,000. */
  timeoutMs?: number
}

/** The platform stores vectors of this many dimensions. */
const dimensionsMax = 1536
/** Texts of one request, and their bytes: endpoints refuse more than some 300,000 tokens at once. */
const batchMax = 64
const batchBytesMax = 256 * 1024
/** Requests of one call at a time. */
const requestsMax = 4
const attemptsMax = 4
const backoff = { baseMs: 200, maxMs: 5_000 }
/** A longer Retry-After is not waited for: it is passed on to the caller. */
const retryAfterMsMax = 10_000

/**
 * Nothing is asked at the opening. Shorter vectors are filled up with zeros, which changes no cosine. `embed` throws
 * AppError `embedder_unavailable` when the endpoint is away or busy for longer than a few tries, and
 * `invalid_configuration` when it refuses the key or the model, or its vectors have more than 1536 dimensions.
 */
export function openOpenAiEmbedder(options: OpenAiOptions): Embedder {
  const { model = 'text-embedding-3-small', apiKey, dimensions, timeoutMs = 10_000 } = options
  const endpoint = endpointOf(options.url)
  const headers = {
    'content-type': 'application/json',
    ...(apiKey === undefined ? {} : { authorization: `Bearer ${apiKey}` }),
  }
  const closed = new AbortController()

  async function tryOnce(input: string[], limitMs: number, ended: AbortSignal): Promise<Answer> {
    try {
      const response = await fetch(endpoint, {
        method: 'POST',
        headers,
        body: JSON.stringify({ model, input, encoding_format: 'float', dimensions }),
        signal: AbortSignal.any([ended, AbortSignal.timeout(limitMs)]),
      })
      if (response.ok) return { body: await response.json() }
      await response.body?.cancel()
      const { status } = response
      const passing = status === 408 || status === 429 || status >= 500
      if (!passing) {
        const asked = dimensions === undefined ? '' : ', and whether it knows EMBEDDINGS_DIMENSIONS'
        throw refused(`answers ${status}; check EMBEDDINGS_URL, its key and its model${asked}`)
      }
      return { afterMs: retryAfterMs(response.headers.get('retry-after')), cause: `HTTP status ${status}` }
    } catch (error) {
      if (error instanceof AppError) throw error
      return { afterMs: 0, cause: describeError(error) }
    }
  }
  /** Tries again while waiting may help. */
  async function ask(input: string[], options: AskOptions = {}): Promise<Float32Array[]> {
    const { limitMs = timeoutMs, attempts = attemptsMax, signal } = options
    const ended = signal ? AbortSignal.any([closed.signal, signal]) : closed.signal
    for (let attempt = 1; ; attempt++) {
      const answer = await tryOnce(input, limitMs, ended)
      if ('body' in answer) return vectorsOf(answer.body, input.length, dimensions)
      if (attempt === attempts || answer.afterMs > retryAfterMsMax || ended.aborted) {
        throw new AppError('embedder_unavailable', 'The embedder does not answer.', {
          retryAfter: Math.max(1, Math.ceil(answer.afterMs / 1000)),
          cause: answer.cause,
        })
      }
      await sleep(Math.max(answer.afterMs, backoffMs(attempt - 1, backoff)), ended)
    }
  }
  return {
    driver: 'openai',
    model,
    space: dimensions === undefined ? model : `${model}/${dimensions}`,
    async embed(texts, signal) {
      const batches = inBatches(texts)
      const vectors: Float32Array[][] = []
      let next = 0
      let failed = false
      const work = async () => {
        while (next < batches.length && !failed) {
          const n = next++
          vectors[n] = await ask(batches[n]!, { signal })
        }
      }
      const requests = Array.from({ length: Math.min(requestsMax, batches.length) }, work)
      await Promise.all(requests).catch((error: unknown) => {
        failed = true
        throw error
      })
      return vectors.flat()
    },
    async ping(limitMs) {
      await ask(['ping'], { limitMs, attempts: 1 })
    },
    async close() {
      closed.abort()
    },
  }
}

function inBatches(texts: readonly string[]): string[][] {
  const batches: string[][] = []
  let bytes = 0
  for (const text of texts) {
    const last = batches.at(-1)
    bytes += Buffer.byteLength(text)
    // Endpoints refuse empty input; a space carries as little.
    const sent = text || ' '
    if (last && last.length < batchMax && bytes <= batchBytesMax) {
      last.push(sent)
      continue
    }
    batches.push([sent])
    bytes = Buffer.byteLength(text)
  }
  return batches
}

interface AskOptions {
  limitMs?: number
  attempts?: number
  signal?: AbortSignal | undefined
}

type Answer = { body: unknown } | { afterMs: number; cause: unknown }

function endpointOf(url: string): string {
  const endpoint = new URL(url)
  const path = endpoint.pathname.replace(/\/+$/, '')
  if (path === '') endpoint.pathname = '/v1/embeddings'
  else if (!path.endsWith('/embeddings')) endpoint.pathname = `${path}/embeddings`
  return endpoint.href
}

/** Seconds or an HTTP date (RFC 9110 §10.2.3). */
function retryAfterMs(header: string | null): number {
  if (header === null) return 0
  const seconds = Number(header)
  const ms = Number.isNaN(seconds) ? Date.parse(header) - Date.now() : seconds * 1000
  return Number.isNaN(ms) ? 0 : Math.max(0, ms)
}

/** Vectors in the order of the input, L2-normalised. */
function vectorsOf(body: unknown, expected: number, asked: number | undefined): Float32Array[] {
  const data = (body as { data?: { index?: number; embedding?: unknown }[] } | null)?.data
  if (!Array.isArray(data) || data.length !== expected) throw refused('does not answer in the form of OpenAI')
  const vectors = new Array<Float32Array>(expected)
  for (const [position, { index, embedding }] of data.entries()) {
    vectors[index ?? position] = normalised(embedding, asked)
  }
  for (let n = 0; n < expected; n++) if (!vectors[n]) throw refused('leaves out texts')
  return vectors
}

function normalised(embedding: unknown, asked: number | undefined): Float32Array {
  if (!Array.isArray(embedding)) throw refused('does not answer in the form of OpenAI')
  if (embedding.length > dimensionsMax) throw tooLong(embedding.length, asked)
  const norm = Math.hypot(...(embedding as number[]))
  if (!Number.isFinite(norm) || norm === 0) throw refused('gives vectors that are zero or not finite')
  const vector = new Float32Array(dimensionsMax)
  for (const [n, component] of (embedding as number[]).entries()) vector[n] = component / norm
  return vector
}

/** Cutting them here would be wrong for most models: only the endpoint knows whether its model was trained for it. */
function tooLong(length: number, asked: number | undefined): AppError {
  return refused(
    asked === undefined
      ? `gives vectors of ${length} dimensions, more than ${dimensionsMax}: set EMBEDDINGS_DIMENSIONS=${dimensionsMax} ` +
          'if the model can shorten its vectors, else choose another EMBEDDINGS_MODEL'
      : `gives vectors of ${length} dimensions, although EMBEDDINGS_DIMENSIONS asks for ${asked}: choose another ` +
          'EMBEDDINGS_MODEL',
  )
}

function refused(why: string): AppError {
  return new AppError('invalid_configuration', `The embedding endpoint ${why}.`)
}
