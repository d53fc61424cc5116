/** Makes the vectors of texts that callers send, within a time limit and a bound of memory. */

import type { Embedder } from '#engines/embedder/port.ts'
import { vectorDimension } from '#engines/vectors/collections.ts'
import { withTimeout } from '#lib/backoff.ts'
import { deadlines } from '#lib/deadlines.ts'
import { AppError } from '#lib/errors.ts'
import type { ByteBudget } from './byte-budget.ts'
import type { ParsedUpsert } from './points.ts'

type Texts = Pick<Embedder, 'embed'>

/** The vector of a question. Throws AppError `embedder_unavailable`. */
export async function embedQuestion(embedder: Texts, text: string): Promise<Float32Array> {
  const [vector] = await inTime(embedder.embed([text]), deadlines.request.embedQuestionMs)
  return vector!
}

/**
 * Writes the vectors of all texts of an upsert into `vectors`. The texts count in the caller's budget of bytes until the
 * embedder is done with them. Throws AppError `embedder_unavailable`, or `overloaded` when too many texts are waiting.
 */
export async function embedTexts(
  embedder: Texts,
  { texts, vectors }: Pick<ParsedUpsert, 'texts' | 'vectors'>,
  held: ReturnType<ByteBudget['begin']>,
): Promise<void> {
  if (texts.size === 0) return
  held.arrived(bytesOf(texts) + vectors.byteLength)
  // A call that takes too long keeps its memory until it ends.
  const made = embedder.embed([...texts.values()]).finally(held.end)
  const found = await inTime(made, deadlines.request.embedTextsMs)
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

async function inTime<T>(made: Promise<T>, limitMs: number): Promise<T> {
  const tooLate = () =>
    new AppError('embedder_unavailable', `The embedder did not answer within ${limitMs / 1_000} s.`, {
      retryAfter,
    })
  try {
    return await withTimeout(made, limitMs, tooLate)
  } catch (error) {
    if (!(error instanceof AppError) || error.code !== 'invalid_configuration') throw error
    throw new AppError('embedder_unavailable', 'The embedder refuses the text.', { retryAfter, cause: error })
  }
}
