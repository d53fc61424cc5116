/** An attempt, or how a target stands, as webhooks.attempts tells it. */

import type { Logger } from 'pino'
import type { WebhookAttempt } from '#schemas/types.ts'
import type { Attempts } from './attempts.ts'
import type { TargetState } from './target-state.ts'
import type { CallResult } from './verdict.ts'

export interface Tried {
  kind: 'success' | 'retry' | 'dead_letter'
  sequence: number
  /** Calls that were made for the event. */
  attempts: number
  receivedAtMs: number
  /** Null when no call was made. */
  result: CallResult | null
  /** Of a retry. */
  nextAttemptAtMs: number | null
}

/** Into the topic, and one line into the log where somebody wants to see all of them. */
export function tellAttempt(
  { attempts, log }: { attempts: Attempts; log: Logger },
  state: TargetState,
  tried: Tried,
): void {
  attempts.add(attemptRecord(state, tried))
  if (!log.isLevelEnabled('debug')) return
  const { kind, sequence, attempts: attempt, result } = tried
  const { status = null, fault = null, tookMs = null } = result ?? {}
  log.debug({ target: state.target.name, kind, sequence, attempt, status, fault, tookMs }, 'webhooks.attempt')
}

function attemptRecord(
  state: TargetState,
  { kind, sequence, attempts, receivedAtMs, result, nextAttemptAtMs }: Tried,
): WebhookAttempt {
  return {
    target: state.target.name,
    kind,
    sequence,
    attempt: attempts,
    status: result?.status ?? null,
    fault: result?.fault ?? null,
    took_ms: result?.tookMs ?? null,
    breaker: state.breaker,
    lag: null,
    head_received_at: receivedAtMs,
    next_attempt_at: nextAttemptAtMs,
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
