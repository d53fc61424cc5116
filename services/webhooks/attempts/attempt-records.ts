/** The records of webhooks.attempts: one for each attempt, and one for the state of a target. */

import type { Logger } from 'pino'
import type { WebhookAttempt } from '#schemas/types.ts'
import type { Head } from '../deliver/heads.ts'
import { type TargetState, wallTimeOf } from '../deliver/target-state.ts'
import type { CallResult } from '../deliver/verdict.ts'
import type { Attempts } from './attempts.ts'

/** A delivery that was tried. */
export interface Tried {
  state: TargetState
  head: Head
  context: { attempt: number }
  delivery: { received_at: number }
}

type Kind = 'success' | 'retry' | 'dead_letter'

/** Publishes the attempt, and logs it at the level `debug`. `result`: null when no call was made. */
export function reportAttempt(
  { attempts, log }: { attempts: Attempts; log: Logger },
  tried: Tried,
  kind: Kind,
  result: CallResult | null,
): void {
  const record = attemptRecord(tried, kind, result)
  attempts.add(record)
  if (!log.isLevelEnabled('debug')) return
  const { target, sequence, attempt, status, fault, took_ms: tookMs } = record
  log.debug({ target, kind, sequence, attempt, status, fault, tookMs }, 'webhooks.attempt')
}

function attemptRecord(
  { state, head, context, delivery }: Tried,
  kind: Kind,
  result: CallResult | null,
): WebhookAttempt {
  return {
    target: state.target.name,
    kind,
    sequence: head.sequence,
    attempt: result === null ? context.attempt - 1 : context.attempt,
    status: result?.status ?? null,
    fault: result?.fault ?? null,
    took_ms: result?.tookMs ?? null,
    breaker: state.breaker,
    lag: null,
    head_received_at: delivery.received_at,
    next_attempt_at: kind === 'retry' ? wallTimeOf(head.dueAtMs) : null,
    occurred_at: Date.now(),
  }
}

export function stateRecord(state: TargetState, lag: number | null): WebhookAttempt {
  const head = state.firstHead
  return {
    target: state.target.name,
    kind: 'state',
    sequence: head?.sequence ?? null,
    attempt: head?.attempts ?? null,
    status: null,
    fault: null,
    took_ms: null,
    breaker: state.breaker,
    lag,
    head_received_at: head?.receivedAtMs ?? null,
    next_attempt_at: state.nextAttemptAtMs,
    occurred_at: Date.now(),
  }
}
