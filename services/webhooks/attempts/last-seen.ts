/** The last call, breaker and waiting event of each target, as couriers reported them; health is made of this. */

import type { WebhookAttempt } from '#schemas/types.ts'

export interface LastSeen {
  /** Of the last call: its HTTP status; null when there was no answer, or no call yet. */
  status: number | null
  /** The last call; null when there was none. */
  call: { answered: boolean; tookMs: number; atMs: number } | null
  breaker: string
  /** The first event that waits for another try, as far as it was reported; null while none does. */
  head: { sequence: number | null; receivedAtMs: number | null; nextAttemptAtMs: number | null } | null
}

export function createLastSeen() {
  const seen = new Map<string, LastSeen>()
  return {
    last: (target: string): LastSeen | null => seen.get(target) ?? null,
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

/** The lanes of one target report events of their own: the lowest sequence is the head, until it is settled. */
function headAfter(head: LastSeen['head'], attempt: WebhookAttempt): LastSeen['head'] {
  const { kind, sequence } = attempt
  const reported = {
    sequence,
    receivedAtMs: attempt.head_received_at,
    nextAttemptAtMs: attempt.next_attempt_at,
  }
  if (kind === 'state') return attempt.head_received_at === null ? null : reported
  if (kind === 'retry') return head === null || (sequence ?? 0) <= (head.sequence ?? 0) ? reported : head
  return sequence === head?.sequence ? null : head
}
