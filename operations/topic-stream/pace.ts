/** How many records a stream shows: never more than its number in any second, and all while fewer come. */

interface StreamPace {
  /** True when one more may be shown now, which then counts. */
  take(): boolean
  /** Milliseconds until one more may be shown. */
  waitMs(): number
}

const windowMs = 1_000

/** For a second after one was full they are spread, so that a flood is shown evenly. */
export function createPace(perSecond: number, now: () => number = () => performance.now()): StreamPace {
  /** When the last ones were shown, as a ring: the next slot holds the oldest. */
  const shownAt = new Float64Array(perSecond).fill(Number.NEGATIVE_INFINITY)
  let next = 0
  let last = Number.NEGATIVE_INFINITY
  let fullAt = Number.NEGATIVE_INFINITY
  function waitMs(at: number): number {
    const full = shownAt[next]! + windowMs - at
    if (full > 0) fullAt = at
    const spread = at - fullAt < windowMs ? last + windowMs / perSecond - at : 0
    return Math.max(0, full, spread)
  }
  return {
    take() {
      const at = now()
      if (waitMs(at) > 0) return false
      shownAt[next] = last = at
      next = (next + 1) % perSecond
      return true
    },
    waitMs: () => Math.ceil(waitMs(now())),
  }
}
