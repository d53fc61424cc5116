/** The 429 of an agent's limits: which one was met, and how long to wait. */

import { AppError, type ErrorCode } from '#lib/errors.ts'
import type { Limit } from './agent-lease.ts'

const refusals: Record<Limit, { code: ErrorCode; message: string }> = {
  day: {
    code: 'quota_exceeded',
    message: "The agent's operations of this UTC day are used up: wait for retryAfter seconds.",
  },
  second: {
    code: 'rate_limited',
    message: 'Too many operations began within one second: wait for retryAfter seconds.',
  },
  concurrent: {
    code: 'too_many_concurrent',
    message: "Too many of the agent's operations run at once: wait for retryAfter seconds.",
  },
}

/** A 429 of the agent's limits: the request was no operation. */
export class LimitRefusal extends AppError {
  readonly limit: Limit
  constructor(limit: Limit, waitMs: number) {
    // Rounded up to whole milliseconds: a caller that waits this long comes after the time, not at it.
    super(refusals[limit].code, refusals[limit].message, { retryAfter: Math.ceil(waitMs + 1) / 1_000 })
    this.limit = limit
  }
}

const concurrentWaitMs = { least: 50, most: 5_000 }

/**
 * Nobody knows when an operation ends: those of this agent usually take so long; one that has run longer than that may
 * run as long again.
 */
export function concurrentWait(typicalMs: number, oldestForMs: number): number {
  const expected = oldestForMs < typicalMs ? typicalMs - oldestForMs : oldestForMs
  return Math.min(concurrentWaitMs.most, Math.max(concurrentWaitMs.least, expected))
}
