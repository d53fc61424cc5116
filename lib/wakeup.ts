/** A pause between two rounds of work, which whoever has new work ends early. */

import { sleep } from './backoff.ts'

export interface Wakeup {
  /** Ends the pause. While there is none, the next one ends at once: work that came meanwhile is never overlooked. */
  wake(): void
  /** Resolves after `ms`, when it is woken, or when the signal aborts. For one sleeper at a time. */
  sleep(ms: number, signal: AbortSignal): Promise<void>
}

export function createWakeup(): Wakeup {
  let due = false
  let woken = new AbortController()
  return {
    wake() {
      if (due) return
      due = true
      woken.abort()
    },
    async sleep(ms, signal) {
      if (!due) {
        woken = new AbortController()
        await sleep(ms, AbortSignal.any([signal, woken.signal]))
      }
      due = false
    },
  }
}
