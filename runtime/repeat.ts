/** Repeats background work until the process stops; what fails is logged and tried again. */

import type { Logger } from 'pino'
import { sleep } from '#lib/backoff.ts'
import { whyWaiting } from '#lib/errors.ts'
import type { Closeable } from '#lib/resource.ts'
import { createWakeup, type Wakeup } from '#lib/wakeup.ts'

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
