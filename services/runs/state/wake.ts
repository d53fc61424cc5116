/**
 * How dispatchers hear of runs before they look into the rows: by a notice of the database, and where a gateway and the
 * dispatcher are one process at once. There a run is claimed by the commit that accepts it, and its events reach their readers
 * with the commit that stores them; the log brings the same to all others.
 */

import type { Relational } from '#engines/relational/port.ts'
import type { RunEventRecord } from '#schemas/types.ts'
import type { ClaimedRun } from './types.ts'

/** Its payload is the slug of the node for which a run waits, or `cancelNotice`. */
export const runsChannel = 'flotilla_runs'
/** No slug. */
export const cancelNotice = '!cancel'

/**
 * A statement of its own: a NOTIFY inside of a transaction makes all commits of the database wait for each other. One that
 * fails delays the run until the next sweep.
 */
export function wakeDispatchers(relational: Pick<Relational, 'query'>, payload: string): void {
  relational
    .query(`select pg_notify('${runsChannel}', $1), pg_notify('flotilla_outbox', '')`, [payload])
    .catch(() => {})
}

/** How a dispatcher claims a run with its acceptance. */
export interface ClaimAtOnce {
  holder: string
  leaseMs: number
  /** Runs of the node at once, over all dispatchers. */
  concurrency: number
}

/** A run that the dispatcher of this process takes with its acceptance, where nothing else waits. */
export interface AtOnce {
  claim: ClaimAtOnce
  /** Works on the run once it was claimed so. */
  begin(run: ClaimedRun): void
}

/**
 * Call it before the run is accepted; undefined: it takes none now. Meanwhile the session is made at the node: no agent is
 * called by that, and it may stay empty.
 */
export type TakeAtOnce = (run: Pick<ClaimedRun, 'slug' | 'userId' | 'sessionId'>) => AtOnce | undefined

export interface LocalRuns {
  /** Hands a run to the dispatcher of this process; undefined where another process has it. */
  takeAtOnce: TakeAtOnce | undefined
  /** The feed of each gateway: gets all that the dispatcher publishes of runs, and says whether somebody waits for it. */
  readers: Set<(record: RunEventRecord) => boolean>
}

/** One for each process: see `ServiceHost.shared`. */
export function createLocalRuns(): LocalRuns {
  return { takeAtOnce: undefined, readers: new Set() }
}
