/** Repeats what must succeed before work goes on, with back-off, until it does or nobody wants it any more. */

import type { Logger } from 'pino'
import { backoffMs, sleep } from '#lib/backoff.ts'
import { describeError } from '#lib/errors.ts'
import { untilDoneWaitMsMax } from './limits.ts'

const baseMs = 100

/** True once `attempt` succeeded; false when `signal` aborted first. */
export async function retryUntilDone(
  what: string,
  attempt: () => Promise<unknown>,
  signal: AbortSignal,
  log: Logger,
): Promise<boolean> {
  for (let n = 0; !signal.aborted; n++) {
    try {
      await attempt()
      return !signal.aborted
    } catch (error) {
      log.warn({ err: describeError(error), try: n + 1 }, `${what} failed; it is tried again`)
    }
    await sleep(backoffMs(n, { baseMs, maxMs: untilDoneWaitMsMax }), signal)
  }
  return false
}
