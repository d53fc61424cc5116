/** What the end of a call means for its event: settled, or tried again, and after which wait. */

import { backoffMs } from '#lib/backoff.ts'
import type { WebhookTarget } from '../targets/targets-file.ts'

/** Why there is no HTTP answer, or no whole one. */
export type CallFault =
  /** There is no address; `blocked`: the name has link-local addresses only. */
  'dns' | 'blocked' | 'connect' | 'tls' | 'reset' | 'timeout' | 'protocol' | 'stopped' | 'unsendable'

/** A fault of our own, thrown where the code is known. */
export class CallError extends Error {
  readonly fault: CallFault

  constructor(fault: CallFault) {
    super(fault)
    this.name = 'CallError'
    this.fault = fault
  }
}

export interface CallResult {
  /** Null when the call ended in a fault. */
  status: number | null
  fault: CallFault | null
  /** As the header says it. */
  retryAfter: string | null
  /** Where a redirect points, as in its header. */
  location: string | null
  tookMs: number
}

export type Verdict =
  /** 2xx. */
  | 'delivered'
  /** It can never work: a dead letter at once. */
  | 'refused'
  /** Worth a retry; when the retries are used up, the event is at fault. */
  | 'failed'
  /** Worth a retry; when the retries are used up, the target is at fault, not the event. */
  | 'away'

/** Retried although the target refused: the same request may succeed later. */
const retriedRefusals: ReadonlySet<number> = new Set([408, 425])
/** What a target, or a proxy in front of it, answers while it cannot take events. */
const awayStatuses: ReadonlySet<number> = new Set([429, 502, 503, 504])

export function verdictOf({ status, fault }: CallResult): Verdict {
  if (status === null) return fault === 'unsendable' ? 'refused' : 'away'
  if (status >= 200 && status < 300) return 'delivered'
  if (awayStatuses.has(status)) return 'away'
  if (status >= 400 && status < 500 && !retriedRefusals.has(status)) return 'refused'
  // Redirects are never followed, so they count as failures, too.
  return 'failed'
}

/** A short code for reasons and logs: nothing that the target said. */
export function codeOf({ status, fault }: CallResult): string {
  return status === null ? (fault ?? 'unknown') : `http_${status}`
}

/** Longest wait between two tries of one event. */
export const waitMsMax = 60_000
/** The longest Retry-After of a target that is respected. */
export const retryAfterMsMax = 15 * 60_000

/** Before retry `n` (1 is the first): full jitter, but no sooner than the target asked for. */
export function retryWaitMs(n: number, baseMs: number, result: CallResult, nowMs: number): number {
  return Math.max(backoffMs(n - 1, { baseMs, maxMs: waitMsMax }), askedWaitMs(result, nowMs))
}

/** Before the `n`th try (1 is the first) of a target that is away: growing, spread over its upper half. */
export function outageWaitMs(n: number, baseMs: number, result: CallResult, nowMs: number): number {
  const ceiling = Math.min(waitMsMax, Math.max(baseMs, outageBaseMs) * 2 ** Math.min(n - 1, 20))
  const waitMs = Math.round(ceiling * (0.5 + Math.random() / 2))
  return Math.max(waitMs, askedWaitMs(result, nowMs))
}

/** A target that is away is not asked more often than this at first, however short its back-off. */
const outageBaseMs = 250

/** RFC 9110, 10.2.3: of 429 and 503; seconds or a date. */
function askedWaitMs({ status, retryAfter }: CallResult, nowMs: number): number {
  if (retryAfter === null || (status !== 429 && status !== 503)) return 0
  return Math.min(retryAfterMsMax, parseRetryAfter(retryAfter, nowMs) ?? 0)
}

/** Milliseconds from now, 0 or more; null when the text is neither seconds nor a date of HTTP. */
export function parseRetryAfter(text: string, nowMs: number): number | null {
  const trimmed = text.trim()
  if (/^\d{1,12}$/.test(trimmed)) return Number(trimmed) * 1_000
  // Date.parse takes much more than HTTP's dates: each of those begins with the name of a day.
  if (!/^(Mon|Tue|Wed|Thu|Fri|Sat|Sun)/.test(trimmed)) return null
  const at = Date.parse(trimmed)
  return Number.isNaN(at) ? null : Math.max(0, at - nowMs)
}

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
