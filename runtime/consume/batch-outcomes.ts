/** Decides what happens to the records of a batch after one call: settled, parked, or tried again, halved where refused. */

import { type BackoffOptions, backoffMs } from '#lib/backoff.ts'
import type { BatchOutcome } from '#lib/outcome.ts'
import { retryWaitMsMax } from './limits.ts'

/** The subject of a decision: a record by its key and its failed attempts. */
export interface BatchRecord {
  readonly key: string
  /** Raised here when the record is to be tried again after a failure. */
  attempts: number
}

/** Records that go to the handler together, after a wait. */
export interface BatchGroup<R> {
  records: R[]
  waitMs: number
}

/**
 * `outcomes` holds one outcome for each record, in order. A record that comes after one of its key that is tried again
 * is tried again as well, so that the later one is applied last.
 */
export function decideBatch<R extends BatchRecord>(
  records: R[],
  outcomes: BatchOutcome[],
  limits: { retriesMax: number; backoff: BackoffOptions },
) {
  const decision = {
    settled: [] as R[],
    parked: [] as { record: R; reason: string }[],
    /** Groups to be tried again, in this order. */
    again: [] as BatchGroup<R>[],
    /** Attempts that failed. */
    failed: 0,
    unavailable: null as { engine: string; reason: string } | null,
  }
  const refused = outcomes.filter((outcome) => outcome.kind === 'split').length
  const again: R[] = []
  const keysAgain = new Set<string>()
  let waitMs = 0
  for (const [index, record] of records.entries()) {
    const outcome = outcomes[index]!
    const parkReason = parkReasonOf(record, outcome, refused, limits.retriesMax)
    if (outcome.kind === 'retry') {
      decision.failed++
      record.attempts++
    }
    if (outcome.kind === 'unavailable') decision.unavailable ??= outcome
    if (parkReason !== null) {
      decision.parked.push({ record, reason: parkReason })
    } else if (outcome.kind === 'done' && !keysAgain.has(record.key)) {
      decision.settled.push(record)
    } else {
      again.push(record)
      keysAgain.add(record.key)
      if (outcome.kind === 'retry') {
        waitMs = Math.max(waitMs, outcome.afterMs ?? 0, backoffMs(record.attempts - 1, limits.backoff))
      }
    }
  }
  const groups = refused > 1 ? halvesOf(again) : [again]
  decision.again = groups
    .filter((group) => group.length > 0)
    .map((group, n) => ({ records: group, waitMs: n === 0 ? Math.min(waitMs, retryWaitMsMax) : 0 }))
  return decision
}

function parkReasonOf(
  record: BatchRecord,
  outcome: BatchOutcome,
  refused: number,
  retriesMax: number,
): string | null {
  if (outcome.kind === 'park') return outcome.reason
  if (outcome.kind === 'retry' && record.attempts >= retriesMax) return outcome.reason
  // Refused together with no other: this is the bad one.
  if (outcome.kind === 'split' && refused === 1) return outcome.reason
  return null
}

function halvesOf<R>(records: R[]): R[][] {
  const middle = records.length >> 1
  return [records.slice(0, middle), records.slice(middle)]
}
