/** Times of admitted calls in, "now" or "in so many seconds" out: exact sliding windows in bounded memory. */

import { LRUCache } from 'lru-cache'

export interface Limit {
  count: number
  windowMs: number
}

export interface SlidingWindows {
  /** 0 when a call of this key would be admitted now, else the milliseconds after which it would be. */
  waitMs(key: string, nowMs: number): number
  /** Counts an admitted call. */
  count(key: string, nowMs: number): void
}

/**
 * At most `count` admitted calls of a key within any window of each limit. Refused calls do not count. Beyond `keysMax`
 * the least recently heard key is forgotten.
 */
export function createSlidingWindows(limits: readonly Limit[], keysMax: number): SlidingWindows {
  const timesMax = Math.max(...limits.map((limit) => limit.count))
  const longestMs = Math.max(...limits.map((limit) => limit.windowMs))
  const keys = new LRUCache<string, number[]>({ max: keysMax })
  return {
    waitMs(key, nowMs) {
      const times = keys.get(key)
      if (!times) return 0
      while (times.length > 0 && times[0]! <= nowMs - longestMs) times.shift()
      let waitMs = 0
      for (const { count, windowMs } of limits) {
        // The call that has to leave the window before this one fits.
        const oldest = times[times.length - count]
        if (oldest !== undefined) waitMs = Math.max(waitMs, oldest + windowMs - nowMs)
      }
      return waitMs
    },
    count(key, nowMs) {
      const times = keys.get(key) ?? []
      keys.set(key, times)
      times.push(nowMs)
      if (times.length > timesMax) times.shift()
    },
  }
}
