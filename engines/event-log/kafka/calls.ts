/** What becomes of a protocol call that fails: reads its answer, names the refusal, and repeats what may be repeated. */

import { sleep, withTimeout } from '#lib/backoff.ts'
import { deadlines } from '#lib/deadlines.ts'
import { AppError } from '#lib/errors.ts'
import { logUnavailable } from '../faults.ts'

export type RepeatedCalls = ReturnType<typeof createRepeatedCalls>

const callTimeoutMs = deadlines.engine.logAdminMs
const pauseMs = 100

export function createRepeatedCalls() {
  let closed = false
  return {
    /**
     * Runs `work`. An AppError that it throws is final; anything else is tried again until `timeoutMs` are over, then AppError
     * `log_unavailable`.
     */
    async ask<T>(work: () => Promise<T>, timeoutMs: number = callTimeoutMs): Promise<T> {
      const end = performance.now() + timeoutMs
      const late = () => new Error('no answer in time')
      for (;;) {
        if (closed) throw logUnavailable()
        try {
          return await withTimeout(work(), Math.max(1, end - performance.now()), late)
        } catch (error) {
          if (error instanceof AppError) throw error
          if (performance.now() + pauseMs >= end) throw logUnavailable(error)
          await sleep(pauseMs)
        }
      }
    },
    /** Calls from now on fail, and nothing is retried. */
    close(): void {
      closed = true
    },
  }
}

/** The library throws an answer that holds an error of any part; the answer itself is in the error. */
export function responseOf<T>(error: unknown): T {
  const { response } = error as { response?: T }
  if (response === undefined) throw error
  return response
}

/** The protocol's name of the refusal in an answer that @platformatic/kafka has thrown; null: it is no answer. */
export function refusalOf(error: unknown): string | null {
  return (error as { errors?: { apiId?: string }[] }).errors?.[0]?.apiId ?? null
}

/** What to make of a rejection: `otherwise` for this refusal, the error itself for anything else. */
export function unless<T>(refusal: string, otherwise: T): (error: unknown) => T {
  return (error) => {
    if (refusalOf(error) !== refusal) throw error
    return otherwise
  }
}
