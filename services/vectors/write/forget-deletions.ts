/** Lets the vector engine forget old deletions, every hour. */

import type { Logger } from 'pino'
import type { VectorStore } from '#engines/vectors/port.ts'
import type { Closeable } from '#lib/resource.ts'
import { startRepeating } from '#runtime/repeat.ts'

const everyMs = 3_600_000
const firstAfterMs = 60_000
const hourMs = 3_600_000

/** Several processes may do it: each run forgets what is old enough, and nothing else. */
export function startForgetting(
  vectors: Pick<VectorStore, 'forgetDeletions'>,
  afterHours: number,
  log: Logger,
): Closeable {
  return startRepeating({ what: 'forgetting deletions', everyMs, firstAfterMs, log }, () =>
    vectors.forgetDeletions(afterHours * hourMs),
  )
}
