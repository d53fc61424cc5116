/** Makes vectors of texts through any endpoint with the API of OpenAI's `/v1/embeddings`. */

import { backoffMs, sleep } from '#lib/backoff.ts'
import { AppError, describeError } from '#lib/errors.ts'
import type { Embedder } from './port.ts'

interface OpenAiOptions {
  /** The endpoint itself (`…/embeddings`) or its base (`…/v1`, or the host alone). */
  url: string
  apiKey?: string
  /** Default `text-embedding-3-small`, which has 1536 dimensions. */
  model?: string
  /** Asks the model for shorter vectors, at most 1536. Only for models that were trained for it. */
  dimensions?: number
  /** Of one request. Default 10,000. */
  timeoutMs?: number
}

/** Of the platform. */
const dimensionsMax = 1536
/** Texts of one request. */
const batchMax = 64
const attemptsMax = 4
const backoff = { baseMs: 200, maxMs: 5_000 }
/** A longer Retry-After is not waited for: it is passed on to the caller. */
const retryAfterMsMax = 10_000

interface Request {
  endpoint: string
  headers: Record<string, string>
  model: string
  dimensions: number | undefined
  timeoutMs: number
  attemptsMax: number
  signal: AbortSignal
}

/**
 * Nothing is asked at the opening. Shorter vectors are filled up with zeros, which changes no cosine. `embed` throws
 * AppError `embedder_unavailable` when the endpoint is away or busy for longer than a few tries, and
 * `invalid_configuration` when it refuses the key or the model, or its vectors have more than 1536 dimensions.
 */
export function openOpenAiEmbedder(options: OpenAiOptions): Embedder {
  const model = options.model ?? 'text-embedding-3-small'
  const closed = new AbortController()
  const request: Request = {
    endpoint: endpointOf(options.url),
    headers: {
      'content-type': 'application/json',
      ...(options.apiKey === undefined ? {} : { authorization: `Bearer ${options.apiKey}` }),
    },
    model,
    dimensions: options.dimensions,
    timeoutMs: options.timeoutMs ?? 10_000,
    attemptsMax,
    signal: closed.signal,
  }
  return {
    driver: 'openai',
    model,
    async embed(texts) {
      const vectors: Float32Array[] = []
      for (let from = 0; from < texts.length; from += batchMax) {
        // Endpoints refuse empty input; a space carries as little.
        const batch = texts.slice(from, from + batchMax).map((text) => text || ' ')
        vectors.push(...vectorsOf(await ask(request, batch), batch.length, options.dimensions))
      }
      return vectors
    },
    async ping(timeoutMs) {
      const body = await ask({ ...request, timeoutMs, attemptsMax: 1 }, ['ping'])
      vectorsOf(body, 1, options.dimensions)
    },
    async close() {
      closed.abort()
    },
  }
}

function endpointOf(url: string): string {
  const endpoint = new URL(url)
  const path = endpoint.pathname.replace(/\/+$/, '')
  if (path === '') endpoint.pathname = '/v1/embeddings'
  else if (!path.endsWith('/embeddings')) endpoint.pathname = `${path}/embeddings`
  return endpoint.href
}

/** The answer's body; tries again while waiting may help. */
async function ask(request: Request, input: string[]): Promise<unknown> {
  for (let attempt = 1; ; attempt++) {
    const answer = await tryOnce(request, input)
    if ('body' in answer) return answer.body
    if (attempt === request.attemptsMax || answer.afterMs > retryAfterMsMax || request.signal.aborted) {
      throw new AppError('embedder_unavailable', 'The embedder does not answer.', {
        retryAfter: Math.max(1, Math.ceil(answer.afterMs / 1000)),
        cause: answer.cause,
      })
    }
    await sleep(Math.max(answer.afterMs, backoffMs(attempt - 1, backoff)), request.signal)
  }
}

type Answer = { body: unknown } | { afterMs: number; cause: unknown }

async function tryOnce(request: Request, input: string[]): Promise<Answer> {
  try {
    const response = await fetch(request.endpoint, {
      method: 'POST',
      headers: request.headers,
      body: JSON.stringify({
        model: request.model,
        input,
        encoding_format: 'float',
        dimensions: request.dimensions,
      }),
      signal: AbortSignal.any([request.signal, AbortSignal.timeout(request.timeoutMs)]),
    })
    if (response.ok) return { body: await response.json() }
    await response.body?.cancel()
    const { status } = response
    const passing = status === 408 || status === 429 || status >= 500
    if (!passing) {
      const asked = request.dimensions === undefined ? '' : ', and whether it knows EMBEDDINGS_DIMENSIONS'
      throw refused(`answers ${status}; check EMBEDDINGS_URL, its key and its model${asked}`)
    }
    return { afterMs: retryAfterMs(response.headers.get('retry-after')), cause: `HTTP status ${status}` }
  } catch (error) {
    if (error instanceof AppError) throw error
    return { afterMs: 0, cause: describeError(error) }
  }
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
