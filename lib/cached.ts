/** Keeps what is expensive to read for a moment, so that many who ask cost one reading. */

import { withTimeout } from './backoff.ts'

export interface Cached<T> {
  /** What was read at most `keptMs` ago; those who ask meanwhile wait for the same reading. */
  get(): Promise<T>
}

interface CachedOptions<T> {
  keptMs: number
  timeoutMs: number
  /** Of a reading that takes longer: the next one who asks begins another. */
  late(): Error
  read(): Promise<T>
}

/** A reading that fails is not kept. */
export function createCached<T>({ keptMs, timeoutMs, late, read }: CachedOptions<T>): Cached<T> {
  let kept: { value: T; readAt: number } | undefined
  let reading: Promise<T> | undefined
  return {
    async get() {
      if (kept && performance.now() - kept.readAt < keptMs) return kept.value
      reading ??= withTimeout(read(), timeoutMs, late)
        .then((value) => {
          kept = { value, readAt: performance.now() }
          return value
        })
        .finally(() => {
          reading = undefined
        })
      return reading
    },
  }
}
