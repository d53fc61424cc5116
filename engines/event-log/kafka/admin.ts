/** Repeats an administrative call until it succeeds or its time is over. */

import { sleep, withTimeout } from '#lib/backoff.ts'
import { deadlines } from '#lib/deadlines.ts'
import { AppError } from '#lib/errors.ts'
import type { AdminClient } from './admin-client.ts'
import { logUnavailable } from './faults.ts'

export interface AdminCalls {
  /**
   * Runs `work`. An AppError that it throws is final; anything else is tried again until `timeoutMs` (default 10 s)
   * are over, then AppError `log_unavailable`.
   */
  ask<T>(work: (client: AdminClient) => Promise<T>, timeoutMs?: number): Promise<T>
  /** What is asked from now on fails, and nothing is tried again. */
  close(): void
}

const callTimeoutMs = deadlines.engine.logAdminMs
const pauseMs = 100

export function createAdminCalls(client: AdminClient): AdminCalls {
  let closed = false
  return {
    async ask(work, timeoutMs = callTimeoutMs) {
      const end = Date.now() + timeoutMs
      const late = () => new Error('no answer in time')
      for (;;) {
        if (closed) throw logUnavailable()
        try {
          return await withTimeout(work(client), Math.max(1, end - Date.now()), late)
        } catch (error) {
          if (error instanceof AppError) throw error
          if (Date.now() + pauseMs >= end) throw logUnavailable(error)
          await sleep(pauseMs)
        }
      }
    },
    close() {
      closed = true
    },
  }
}
