/** Attempts and states of targets in, the last of each target in the terms of the health answer out. */

import type { WebhookAttempt } from '#schemas/types.ts'

export interface Sighting {
  /** Of the last call: its HTTP status; null when there was no answer, or no call yet. */
  status: number | null
  /** Of the last call; null when there was none. */
  call: { answered: boolean; tookMs: number; atMs: number } | null
  breaker: string
  /** When the event at the head was accepted; null while nothing waits. */
  headReceivedAtMs: number | null
  nextAttemptAtMs: number | null
  /** Of the last record, whatever it was. */
  atMs: number
}

export function createSightings() {
  const seen = new Map<string, Sighting>()
  return {
    last: (target: string): Sighting | null => seen.get(target) ?? null,
    forget: (target: string) => void seen.delete(target),
    take(attempt: WebhookAttempt): void {
      const before = seen.get(attempt.target)
      const called = attempt.kind !== 'state' && attempt.kind !== 'unknown' && attempt.took_ms !== null
      const call = called
        ? { answered: attempt.status !== null, tookMs: attempt.took_ms as number, atMs: attempt.occurred_at }
        : (before?.call ?? null)
      seen.set(attempt.target, {
        status: called ? attempt.status : (before?.status ?? null),
        call,
        breaker: attempt.breaker,
        headReceivedAtMs: attempt.head_received_at,
        nextAttemptAtMs: attempt.next_attempt_at,
        atMs: attempt.occurred_at,
      })
    },
  }
}
