/**
 * The log's own time, for the times of records and for what expires. It follows the wall clock, but never steps back,
 * and a jump ahead counts only once it has lasted: a clock that is wrong for a while must not expire records.
 */

/** The wall clock may move ahead by this much at once and is believed. */
const stepMsMax = 60_000
/** Whole milliseconds since 1970. */
export type Clock = () => number

interface ClockOptions {
  startAt: number
  /** A larger jump is believed when the wall clock has stayed there for this long. */
  believedAfterMs: number
  wall?(): number
  /** Milliseconds that pass whatever the wall clock says. */
  steady?(): number
}

export function createClock(options: ClockOptions): Clock {
  const { startAt, believedAfterMs, wall = Date.now, steady = () => performance.now() } = options
  let time = startAt
  let askedAt = steady()
  let jumpedAt: number | null = null
  return () => {
    const now = steady()
    const shown = wall()
    const own = time + (now - askedAt)
    askedAt = now
    jumpedAt = shown - own > stepMsMax ? (jumpedAt ?? now) : null
    const believed = jumpedAt === null || now - jumpedAt >= believedAfterMs
    time = believed ? Math.max(time, shown) : own
    return Math.floor(time)
  }
}
