/** Keeps an expensive value for a moment, so that many callers cost one reading. */

import { withTimeout } from './backoff.ts'

export interface Cached<T> {
  /** The value read at most `keptMs` ago; concurrent callers share one reading. */
  get(): Promise<T>
}

interface CachedOptions<T> {
  keptMs: number
  timeoutMs: number
  /** The error of a reading that takes too long; the next caller starts another. */
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
