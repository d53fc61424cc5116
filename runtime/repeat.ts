/** Repeats background work until the process stops, or one thing until it succeeds; what fails is logged and tried again. */

import type { Logger } from 'pino'
import { backoffMs, createWakeup, sleep, type Wakeup } from '#lib/backoff.ts'
import { describeError, whyWaiting } from '#lib/errors.ts'
import type { Closeable } from '#lib/resource.ts'

/** Between two tries of what must succeed: a dead letter, beforeCommit. */
const untilDoneBackoff = { baseMs: 100, maxMs: 5_000 }

export interface RepeatOptions {
  what: string
  /** The pause between two runs; a function is asked before each. */
  everyMs: number | (() => number)
  signal: AbortSignal
  log: Logger
  /** Before the first time. Default 0. */
  firstAfterMs?: number
  /** Ends a pause when there is work. */
  wakeup?: Wakeup
}

/** Resolves after the signal aborted and the current run ended. A failure that lasts is logged once, when it begins. */
export async function repeatUntil(options: RepeatOptions, work: () => Promise<unknown>): Promise<void> {
  const { what, everyMs, signal, log, wakeup = createWakeup() } = options
  let failing = false
  await sleep(options.firstAfterMs ?? 0, signal)
  while (!signal.aborted) {
    try {
      await work()
      if (failing) log.info({ what }, 'repeat.recovered')
      failing = false
    } catch (error) {
      const { reason, cause } = whyWaiting(error)
      if (!failing) log.warn({ what, reason, cause }, 'repeat.failing')
      failing = true
    }
    await wakeup.sleep(typeof everyMs === 'number' ? everyMs : everyMs(), signal)
  }
}

/** As `repeatUntil`, in the background; close stops it and waits for the work under way. */
export function startRepeating(
  options: Omit<RepeatOptions, 'signal'>,
  work: () => Promise<unknown>,
): Closeable {
  const stop = new AbortController()
  const repeating = repeatUntil({ ...options, signal: stop.signal }, work)
  return {
    async close() {
      stop.abort()
      await repeating
    },
  }
}

/** Repeats with back-off. True once `attempt` succeeded; false when `signal` aborted first. */
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
      log.warn({ what, err: describeError(error), try: n + 1 }, 'repeat.retrying')
    }
    await sleep(backoffMs(n, untilDoneBackoff), signal)
  }
  return false
}
