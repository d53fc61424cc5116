/** Time limits for closing, so that a stop takes ten seconds at most, and the drain of a worker that has one. */

import { withTimeout } from '#lib/backoff.ts'
import { deadlines } from '#lib/deadlines.ts'
import type { Closeable } from '#lib/resource.ts'

/** For all of it: requests in flight, then workers, then engines with the time that is left. */
const stopMs = deadlines.stop.allMs

/** Limits a close by its own time and by what is left of the stop. Nothing acknowledged is lost where one times out. */
export type Bound = (resource: Closeable, ms?: number) => Closeable

/** `drainMs` is for a worker that has the process to itself, and comes on top. */
export function createBound(drainMs = 0): Bound {
  let endsAt: number | undefined
  return (resource, ms = stopMs) => ({
    close() {
      endsAt ??= performance.now() + stopMs + drainMs
      const limit = Math.max(0, Math.min(ms, endsAt - performance.now()))
      return withTimeout(
        resource.close(),
        limit,
        () => new Error(`did not close within ${Math.round(limit)} ms`),
      )
    },
  })
}
