/** A pause between two rounds of work, which whoever has new work ends early. */

export interface Wakeup {
  /** Ends the pause. While there is none, the next one ends at once: work that came meanwhile is never overlooked. */
  wake(): void
  /** Resolves after `ms`, when it is woken, or when the signal aborts. For one sleeper at a time. */
  sleep(ms: number, signal: AbortSignal): Promise<void>
}

export function createWakeup(): Wakeup {
  let due = false
  let endPause: (() => void) | undefined

  function pause(ms: number, signal: AbortSignal): Promise<void> {
    return new Promise((resolve) => {
      const end = () => {
        clearTimeout(timer)
        signal.removeEventListener('abort', end)
        resolve()
      }
      const timer = setTimeout(end, ms)
      signal.addEventListener('abort', end, { once: true })
      endPause = end
    })
  }

  return {
    wake() {
      due = true
      endPause?.()
    },
    async sleep(ms, signal) {
      if (!due && !signal.aborted) await pause(ms, signal)
      endPause = undefined
      due = false
    },
  }
}
