/**
 * Where a gateway and the dispatcher are one process they meet here: a run is claimed by the commit that accepts it, and its
 * events reach their readers with the commit that stores them. The rows are the truth, and the log brings the same to all others.
 */

import type { Relational } from '#engines/relational/port.ts'
import type { RunEventRecord } from '#schemas/types.ts'
import type { ClaimedRun } from './columns.ts'
import type { ClaimAtOnce } from './new-run.ts'

export interface LocalDispatcher {
  /** How a run of this node is claimed with its acceptance; undefined: the dispatcher takes none now. */
  claimAtOnce(slug: string): ClaimAtOnce | undefined
  /** While such a run is being accepted its session is made at its node. No agent is called by that, and it may stay empty. */
  prepare(run: Pick<ClaimedRun, 'slug' | 'userId' | 'sessionId'>): void
  /** Works on a run that was claimed so. `askedAt` is the `performance.now()` of before. */
  begin(run: ClaimedRun, askedAt: number): void
  /** A run waits at this node. */
  run(slug: string, runId: string | null): void
}

/** Says whether somebody waits for the record. */
type Listener = (record: RunEventRecord) => boolean

export interface LocalRuns {
  /** Undefined where another process has it. */
  dispatcher: LocalDispatcher | undefined
  /** Calls `listener` with all that the dispatcher publishes of runs, until the result is called. */
  hear(listener: Listener): () => void
  /** Whether somebody in this process waited for it. */
  tell(record: RunEventRecord): boolean
}

/** By the database of the process, which its services share. */
const ofThisProcess = new WeakMap<Relational, LocalRuns>()

export function localRunsOf(relational: Relational): LocalRuns {
  const known = ofThisProcess.get(relational) ?? createLocalRuns()
  ofThisProcess.set(relational, known)
  return known
}

function createLocalRuns(): LocalRuns {
  // One of each gateway of the process.
  const listeners = new Set<Listener>()
  return {
    dispatcher: undefined,
    hear(listener) {
      listeners.add(listener)
      return () => listeners.delete(listener)
    },
    tell(record) {
      let isHeard = false
      for (const listener of listeners) isHeard = listener(record) || isHeard
      return isHeard
    },
  }
}
