/** Times of admitted calls in, "now" or "in so many seconds" out: exact sliding windows in bounded memory. */

import { LRUCache } from 'lru-cache'

export interface Limit {
  count: number
  windowMs: number
}

export interface SlidingWindows {
  /** 0 admits the call (and counts it for `key`); else the milliseconds after which it would be admitted. */
  admit(key: string, nowMs: number): number
}

/**
 * At most `count` admitted calls of a key within any window of each limit. Refused calls do not count. Keys unheard for
 * the longest window are forgotten, the least recently heard first beyond `keysMax`.
 */
export function createSlidingWindows(limits: readonly Limit[], keysMax: number): SlidingWindows {
  const timesMax = Math.max(...limits.map((limit) => limit.count))
  const longestMs = Math.max(...limits.map((limit) => limit.windowMs))
  const keys = new LRUCache<string, number[]>({ max: keysMax })
  return {
    admit(key, nowMs) {
      const times = keys.get(key) ?? []
      keys.set(key, times)
      while (times.length > 0 && times[0]! <= nowMs - longestMs) times.shift()
      let waitMs = 0
      for (const { count, windowMs } of limits) {
        // The call that has to leave the window before this one fits.
        const oldest = times[times.length - count]
        if (oldest !== undefined) waitMs = Math.max(waitMs, oldest + windowMs - nowMs)
      }
      if (waitMs > 0) return waitMs
      times.push(nowMs)
      if (times.length > timesMax) times.shift()
      return 0
    },
  }
}
