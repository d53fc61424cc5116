/** Makes the vectors of texts that callers send, within a time limit and a bound of memory. */

import type { Embedder } from '#engines/embedder/port.ts'
import { vectorDimension } from '#engines/vectors/collections.ts'
import { withTimeout } from '#lib/backoff.ts'
import { deadlines } from '#lib/deadlines.ts'
import { AppError } from '#lib/errors.ts'
import { validationFailed } from '#runtime/http/validation.ts'
import type { ByteBudget } from './byte-budget.ts'
import type { ParsedUpsert } from './upsert.ts'

type TextEmbedder = Pick<Embedder, 'embed' | 'ping'>

/** The vector of a question. Throws AppError `embedder_unavailable`, or `validation_failed` for a text that it refuses. */
export async function embedQuestion(embedder: TextEmbedder, text: string): Promise<Float32Array> {
  const [vector] = await embedQuestions(embedder, [text], '/text')
  return vector!
}

/** The vectors of several questions, in one call of the embedder. Throws as `embedQuestion`, at `path`. */
export async function embedQuestions(
  embedder: TextEmbedder,
  texts: string[],
  path: string,
): Promise<Float32Array[]> {
  if (texts.length === 0) return []
  const limitMs = deadlines.request.embedQuestionMs
  return settled(embedder, embedder.embed(texts, AbortSignal.timeout(limitMs)), { limitMs, path })
}

/**
 * Writes the vectors of all texts of an upsert into `vectors`. The texts count in the caller's budget of bytes until the
 * embedder is done with them. Throws AppError `embedder_unavailable`, `overloaded` when too many texts are waiting, or
 * `validation_failed` for texts that it refuses.
 */
export async function embedTexts(
  embedder: TextEmbedder,
  { texts, vectors }: Pick<ParsedUpsert, 'texts' | 'vectors'>,
  held: ReturnType<ByteBudget['begin']>,
): Promise<void> {
  if (texts.size === 0) return
  held.arrived(bytesOf(texts) + vectors.byteLength)
  // A call that takes too long keeps its memory until it ends.
  const limitMs = deadlines.request.embedTextsMs
  const made = embedder.embed([...texts.values()], AbortSignal.timeout(limitMs)).finally(held.end)
  const found = await settled(embedder, made, { limitMs, path: '/points' })
  const all = new Float32Array(vectors)
  let next = 0
  for (const place of texts.keys()) all.set(found[next++]!, place * vectorDimension)
}

/** Each text is held twice: by itself and in its payload. */
function bytesOf(texts: ReadonlyMap<number, string>): number {
  let bytes = 0
  for (const text of texts.values()) bytes += 2 * Buffer.byteLength(text)
  return bytes
}

const retryAfter = 5
const pingMs = 5_000

/** A ping says whether an endpoint that refuses has a wrong key or model, or a text that is too long for its model. */
async function settled<T>(
  embedder: Pick<Embedder, 'ping'>,
  made: Promise<T>,
  { limitMs, path }: { limitMs: number; path: string },
): Promise<T> {
  const away = (cause?: unknown) =>
    new AppError('embedder_unavailable', 'The embedder does not answer.', { retryAfter, cause })
  try {
    return await withTimeout(made, limitMs, away)
  } catch (error) {
    if (!(error instanceof AppError) || error.code !== 'invalid_configuration') throw error
    await embedder.ping(pingMs).catch((fault: unknown) => {
      throw away(fault)
    })
    throw validationFailed([
      { path, message: 'a text that the embedder takes: this may be too long for its model' },
    ])
  }
}
