/** Time limits for closing, so that a stop takes ten seconds at most, and the drain of a worker that has one. */

import { withTimeout } from '#lib/backoff.ts'
import { deadlines } from '#lib/deadlines.ts'
import type { Closeable } from '#lib/resource.ts'

/** For all of it: requests in flight, then workers, then engines with the time that is left. */
const { allMs, enginesMs, workersMs } = deadlines.stop

export interface Stop {
  /** Limits a close by its own time and by the rest of the stop. Nothing acknowledged is lost where one times out. */
  bound(resource: Closeable, ms?: number): Closeable
  /** As `bound`, of the workers: with all the time that engines do not need. */
  boundWorkers(workers: Closeable): Closeable
  /** How long a worker may let its work go on, when its close begins; the rest is to write down what it was. */
  drainMs(): number
}

/** `ownDrainMs` is of a worker that has the process to itself, and comes on top. */
export function createStop(ownDrainMs?: number): Stop {
  let endsAt: number | undefined
  /** The first who asks begins the stop. */
  function leftMs(): number {
    endsAt ??= performance.now() + allMs + (ownDrainMs ?? 0)
    return endsAt - performance.now()
  }
  const forWorkersMs = () => Math.max(workersMs, leftMs() - enginesMs)
  const boundBy = (resource: Closeable, limitMs: () => number): Closeable => ({
    close() {
      const limit = Math.max(0, Math.min(limitMs(), leftMs()))
      return withTimeout(
        resource.close(),
        limit,
        () => new Error(`did not close within ${Math.round(limit)} ms`),
      )
    },
  })
  return {
    bound: (resource, ms = allMs) => boundBy(resource, () => ms),
    boundWorkers: (workers) => boundBy(workers, forWorkersMs),
    drainMs: () => ownDrainMs ?? forWorkersMs() - deadlines.stop.lastWritesMs,
  }
}
