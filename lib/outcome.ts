/** What a handler answers about a record. The consumer runtime alone acts on it: only it commits, waits, halves or parks. */

export type Outcome =
  | { kind: 'done' }
  /** This record failed and may succeed later. `afterMs` is the least wait (for example a Retry-After). */
  | { kind: 'retry'; reason: string; afterMs?: number }
  /** The engine behind the handler is away: the whole group waits, probes, counts no attempt, parks nothing. */
  | { kind: 'unavailable'; engine: string; reason: string }
  /** This record can never work: dead letter at once. Lanes only: `tried` counts the work as one more attempt. */
  | { kind: 'park'; reason: string; tried?: boolean }

/**
 * Batches only: the engine refused the records that answer this together. They are halved and tried again until the
 * bad one is alone; that one is parked with its reason.
 */
interface Split {
  kind: 'split'
  reason: string
}

/**
 * Lanes only: the record stays the head of its lane and is tried again after exactly this wait, however often; it is
 * never parked for that. Other lanes go on.
 */
export interface Hold {
  kind: 'hold'
  reason: string
  afterMs: number
  /** True when the work was tried and failed: the attempt counts, also over restarts. */
  tried: boolean
  /** Kept with the record's attempts, 0 to 255: comes back as `CallContext.retriesUsed`. */
  retriesUsed: number
}

export type BatchOutcome = Outcome | Split
export type LaneOutcome = Outcome | Hold

export const done: Outcome = Object.freeze({ kind: 'done' })

export function retry(reason: string, afterMs?: number): Outcome {
  return afterMs === undefined ? { kind: 'retry', reason } : { kind: 'retry', reason, afterMs }
}

export function unavailable(engine: string, reason: string): Outcome {
  return { kind: 'unavailable', engine, reason }
}

export function park(reason: string, { tried = false } = {}): Outcome {
  return tried ? { kind: 'park', reason, tried } : { kind: 'park', reason }
}

export function split(reason: string): Split {
  return { kind: 'split', reason }
}

/** The work was not tried: something else has to happen first. */
export function postpone(reason: string, afterMs: number, retriesUsed: number): Hold {
  return { kind: 'hold', reason, afterMs, tried: false, retriesUsed }
}

/** The work failed and is tried again for as long as it takes. */
export function keepTrying(reason: string, afterMs: number, retriesUsed: number): Hold {
  return { kind: 'hold', reason, afterMs, tried: true, retriesUsed }
}
