/** Closes in, closes that end in time out: a stop takes ten seconds at most. */

import { withTimeout } from '#lib/backoff.ts'
import type { Closeable } from '#lib/resource.ts'

/** Requests in flight, then workers, then engines with what is left. */
const stopMs = 9_500

/** Bounds closes: each by its own limit, all together by the stop's. Nothing acknowledged is lost where one gives up. */
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
