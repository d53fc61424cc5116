/** The arithmetic of a sliding window, written once: the leases of agents' limits and the rates of handshakes follow it. */

import { AppError } from './errors.ts'
import { createLru } from './lru.ts'

/**
 * The milliseconds after which one more time fits when at most `count` may lie within any `windowMs`; 0 when it fits
 * now. `times` rises; those that have left the window may still be in it.
 */
export function windowWaitMs(
  times: readonly number[],
  count: number,
  windowMs: number,
  nowMs: number,
): number {
  if (count <= 0) return windowMs
  // The one that has to leave the window before another fits.
  const oldest = times[times.length - count]
  return oldest === undefined ? 0 : Math.max(0, oldest + windowMs - nowMs)
}

export interface WindowLimit {
  count: number
  windowMs: number
}

/**
 * At most `count` admitted calls of a key within any window of each limit. Refused calls do not count. Beyond `keysMax`
 * the key that was used least recently is forgotten.
 */
export function createSlidingWindows(limits: readonly WindowLimit[], keysMax: number) {
  const timesMax = Math.max(...limits.map((limit) => limit.count))
  const longestMs = Math.max(...limits.map((limit) => limit.windowMs))
  const keys = createLru<string, number[]>(keysMax)
  return {
    /** 0 when a call of this key would be admitted now, else the milliseconds after which it would be. */
    waitMs(key: string, nowMs: number): number {
      const times = keys.get(key)
      if (!times) return 0
      while (times.length > 0 && times[0]! <= nowMs - longestMs) times.shift()
      return Math.max(...limits.map(({ count, windowMs }) => windowWaitMs(times, count, windowMs, nowMs)))
    },
    /** Counts an admitted call. */
    count(key: string, nowMs: number): void {
      const times = keys.get(key) ?? []
      keys.set(key, times)
      times.push(nowMs)
      if (times.length > timesMax) times.shift()
    },
    /** Takes back the count at `nowMs`. */
    uncount(key: string, nowMs: number): void {
      const times = keys.get(key) ?? []
      const at = times.lastIndexOf(nowMs)
      if (at >= 0) times.splice(at, 1)
    },
  }
}

/** Throws AppError `rate_limited` with the time to wait, where there is one. `what` there was too much of, for the caller. */
export function refuseFor(waitMs: number, what: string): void {
  if (waitMs <= 0) return
  throw new AppError('rate_limited', `Too many ${what}: wait for retryAfter seconds.`, {
    retryAfter: Math.ceil(waitMs) / 1_000,
  })
}
