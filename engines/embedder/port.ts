/** The embedder: turns texts into vectors of the platform's dimension, L2-normalised. */

import type { Closeable } from '#lib/resource.ts'

export interface Embedder extends Closeable {
  readonly driver: 'local' | 'openai'
  /** Names the model in the gateway's OpenAI-shaped answer. */
  readonly model: string
  /**
   * Kept with each point that it makes the vector of: vectors of one space can be compared, those of two cannot. Names the
   * model with all that changes its vectors.
   */
  readonly space: string
  /**
   * One vector for each text, in order. A text without any word gives a fixed unit vector, never a zero one. Throws
   * AppError `embedder_unavailable` when the endpoint is away, and once `signal` aborts: it is asked no more then.
   */
  embed(texts: string[], signal?: AbortSignal): Promise<Float32Array[]>
  /**
   * Embeds a word, without trying again. Throws AppError `embedder_unavailable` when the endpoint is away, and
   * `invalid_configuration` when it refuses, or when its vectors do not fit the platform.
   */
  ping(timeoutMs: number): Promise<void>
}
