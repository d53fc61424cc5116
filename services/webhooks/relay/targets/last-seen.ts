/** Attempts and states of targets in, the last of each target in the terms of the health answer out. */

import type { WebhookAttempt } from '#schemas/types.ts'

export interface Sighting {
  /** Of the last call: its HTTP status; null when there was no answer, or no call yet. */
  status: number | null
  /** The last call; null when there was none. */
  call: { answered: boolean; tookMs: number; atMs: number } | null
  breaker: string
  /** The first event that waits for another try, as far as it was told; null while none does. */
  head: { sequence: number | null; receivedAtMs: number | null; nextAttemptAtMs: number | null } | null
}

export function createSightings() {
  const seen = new Map<string, Sighting>()
  return {
    last: (target: string): Sighting | null => seen.get(target) ?? null,
    forget: (target: string) => void seen.delete(target),
    take(attempt: WebhookAttempt): void {
      const before = seen.get(attempt.target) ?? null
      const { took_ms: tookMs, status, occurred_at: atMs } = attempt
      const called = attempt.kind !== 'state' && tookMs !== null
      seen.set(attempt.target, {
        status: called ? status : (before?.status ?? null),
        call: called ? { answered: status !== null, tookMs, atMs } : (before?.call ?? null),
        breaker: attempt.breaker,
        head: headAfter(before?.head ?? null, attempt),
      })
    },
  }
}

/** Lanes of one target tell of events of their own: the first of all is the head, until it is settled. */
function headAfter(head: Sighting['head'], attempt: WebhookAttempt): Sighting['head'] {
  const { kind, sequence } = attempt
  const told = {
    sequence,
    receivedAtMs: attempt.head_received_at,
    nextAttemptAtMs: attempt.next_attempt_at,
  }
  if (kind === 'state') return attempt.head_received_at === null ? null : told
  if (kind === 'retry') return head === null || (sequence ?? 0) <= (head.sequence ?? 0) ? told : head
  return sequence === head?.sequence ? null : head
}
