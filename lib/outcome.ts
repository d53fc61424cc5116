/** What a handler says about a record. The consumer runtime alone acts on it: only it commits, waits or parks. */

export type Outcome =
  | { kind: 'done' }
  /** This record failed and may succeed later. `afterMs` is the least wait (for example a Retry-After). */
  | { kind: 'retry'; reason: string; afterMs?: number }
  /** The engine behind the handler is away: the whole group waits, probes, counts no attempt, parks nothing. */
  | { kind: 'unavailable'; engine: string; reason: string }
  /** This record can never work: dead letter at once. */
  | { kind: 'park'; reason: string }

export const done: Outcome = Object.freeze({ kind: 'done' })

export function retry(reason: string, afterMs?: number): Outcome {
  return afterMs === undefined ? { kind: 'retry', reason } : { kind: 'retry', reason, afterMs }
}

export function unavailable(engine: string, reason: string): Outcome {
  return { kind: 'unavailable', engine, reason }
}

export function park(reason: string): Outcome {
  return { kind: 'park', reason }
}
