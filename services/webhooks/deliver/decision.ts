/** The rules of retry, poison and outage: what becomes of an event after a call, by its verdict and its history. */

import type { WebhookTarget } from '../targets/target.ts'
import type { Verdict } from './verdict.ts'

type Decision =
  | { kind: 'deliver' }
  /** Dead letter, now. */
  | { kind: 'park'; why: 'answer' | 'held_too_long' }
  /** Again after the target's back-off. */
  | { kind: 'retry'; retriesUsed: number }
  /** The target is away: its breaker is open, and only this head is tried. */
  | { kind: 'outage'; retriesUsed: number }
  /** Poison that the operator wants to wait: again at growing intervals. */
  | { kind: 'hold'; retriesUsed: number; tries: number }

interface Circumstances {
  verdict: Verdict
  /** Tries of the event that its retries were spent on, before this one; more than `retry`: they were used up. */
  retriesUsed: number
  /** The target was found away, by this event or by another. */
  breakerOpen: boolean
  /** How long ago the event was accepted. */
  ageMs: number
}

/** More is not kept with a record's attempts. */
const retriesUsedMax = 255

export function decide(
  { verdict, retriesUsed, breakerOpen, ageMs }: Circumstances,
  { retry, holdHours, onExhausted }: Pick<WebhookTarget, 'retry' | 'holdHours' | 'onExhausted'>,
): Decision {
  if (verdict === 'delivered') return { kind: 'deliver' }
  if (verdict === 'refused') return { kind: 'park', why: 'answer' }
  const next = Math.min(retriesUsedMax, retriesUsed + 1)
  if (verdict === 'away') {
    // An outage spends no retries: while the breaker is open they count as used up, and come back after it.
    if (next <= retry && !breakerOpen) return { kind: 'retry', retriesUsed: next }
    if (ageMs > holdHours * 3_600_000) return { kind: 'park', why: 'held_too_long' }
    return { kind: 'outage', retriesUsed: Math.max(next, retry + 1) }
  }
  if (next <= retry) return { kind: 'retry', retriesUsed: next }
  if (onExhausted === 'hold') return { kind: 'hold', retriesUsed: next, tries: next - retry }
  // Its retries were used up by an outage, which is over: now it has them all.
  if (retriesUsed > retry && retry > 0) return { kind: 'retry', retriesUsed: 1 }
  return { kind: 'park', why: 'answer' }
}
