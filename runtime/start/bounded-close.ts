/** Time limits for closing, so that a stop takes ten seconds at most. */

import { withTimeout } from '#lib/backoff.ts'
import type { Closeable } from '#lib/resource.ts'

/** For all of it: requests in flight, then workers, then engines with the time that is left. */
const stopMs = 9_500

/** Limits a close by its own time and by what is left of the stop. Nothing acknowledged is lost where one times out. */
export type Bound = (resource: Closeable, ms?: number) => Closeable

export function createBound(): Bound {
  let endsAt: number | undefined
  return (resource, ms = stopMs) => ({
    close() {
      endsAt ??= Date.now() + stopMs
      const limit = Math.max(0, Math.min(ms, endsAt - Date.now()))
      return withTimeout(resource.close(), limit, () => new Error(`did not close within ${limit} ms`))
    },
  })
}
