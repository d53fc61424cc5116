/** How long to wait between tries, and waiting that a signal or a time limit ends. */

export interface BackoffOptions {
  baseMs: number
  maxMs: number
  /** 0..1, for tests; default Math.random. */
  random?: () => number
}

/** Exponential back-off with full jitter: a wait in ms for retry number `n` (0 = the first retry). */
export function backoffMs(n: number, options: BackoffOptions): number {
  const ceiling = Math.min(options.maxMs, options.baseMs * 2 ** Math.min(n, 30))
  return Math.round((options.random ?? Math.random)() * ceiling)
}

/** Whether the log has a line for this failure of a row, counted from 1: the first, and then each doubling. */
export function isDoubling(failures: number): boolean {
  return (failures & (failures - 1)) === 0
}

/**
 * Resolves after `ms`, or at once when `signal` aborts (it never rejects). Made of the global timers, because fake clocks
 * of tests do not reach those of node:timers/promises.
 */
export function sleep(ms: number, signal?: AbortSignal): Promise<void> {
  return pause(ms, signal).over
}

/** A timer may come so much too early. */
export const timerErrorMs = 2

/** The first of the times `everyMs` apart that lies behind `ms`, on the clock of `performance.now()`. */
export function timeBehind(ms: number, everyMs: number): number {
  return (Math.floor(ms / everyMs) + 1) * everyMs
}

const beatMs = 250

/**
 * How long a pause of about `ms` takes so that long pauses of a process end together: an idle process wakes seldom, for
 * many things at a time. Work that pauses for a multiple of the beat goes on at the same times as all that pauses as
 * long, whatever it takes itself; other pauses are shorter by a beat at most. None is longer, but by a timer's error.
 */
export function onBeat(ms: number): number {
  if (ms < 2 * beatMs) return ms
  const everyMs = ms % beatMs === 0 ? ms : beatMs
  const now = performance.now()
  return Math.ceil(timeBehind(now + timerErrorMs + ms - everyMs, everyMs) - now)
}

/** `end` ends the pause before its time. */
function pause(ms: number, signal?: AbortSignal) {
  const { promise, resolve } = Promise.withResolvers<void>()
  const end = () => {
    clearTimeout(timer)
    signal?.removeEventListener('abort', end)
    resolve()
  }
  const timer = setTimeout(end, ms)
  if (signal?.aborted) end()
  else signal?.addEventListener('abort', end, { once: true })
  return { over: promise, end }
}

/**
 * Looks every `everyMs` until `look` resolves with something, and resolves with that. After `withinMs` it is `late`, which gives a
 * value in its place or throws. Rejects with the signal's reason when that aborts.
 */
export async function lookUntil<T>(
  look: () => Promise<T | undefined>,
  { everyMs, withinMs, signal, late }: LookOptions<T>,
): Promise<T> {
  const until = performance.now() + withinMs
  for (;;) {
    const found = await look()
    if (found !== undefined) return found
    if (performance.now() > until) return late()
    await sleep(everyMs, signal)
    signal.throwIfAborted()
  }
}

interface LookOptions<T> {
  everyMs: number
  withinMs: number
  signal: AbortSignal
  late(): T
}

/** Rejects with `error()` when `promise` takes longer than `ms`. The work itself is not stopped. */
export async function withTimeout<T>(promise: Promise<T>, ms: number, error: () => Error): Promise<T> {
  let timer: NodeJS.Timeout | undefined
  const timeout = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(error()), ms)
  })
  try {
    return await Promise.race([promise, timeout])
  } finally {
    clearTimeout(timer)
  }
}

/** Rejects with `error()` when `signal` aborts before `promise` settles. The work itself is not stopped. */
export async function unlessAborted<T>(
  promise: Promise<T>,
  signal: AbortSignal,
  error: () => unknown = () => signal.reason,
): Promise<T> {
  const { promise: aborted, reject } = Promise.withResolvers<never>()
  const giveUp = () => reject(error())
  if (signal.aborted) giveUp()
  signal.addEventListener('abort', giveUp, { once: true })
  try {
    return await Promise.race([promise, aborted])
  } finally {
    signal.removeEventListener('abort', giveUp)
  }
}

export type Wakeup = ReturnType<typeof createWakeup>

/** A pause between two rounds of work, which whoever has new work ends early. */
export function createWakeup() {
  let due = false
  let endPause: (() => void) | undefined
  return {
    /** Ends the pause. While there is none, the next one ends at once: work that came meanwhile is never overlooked. */
    wake(): void {
      due = true
      endPause?.()
    },
    /** Resolves after about `ms` (`onBeat`), when it is woken, or when the signal aborts. For one sleeper at a time. */
    async sleep(ms: number, signal: AbortSignal): Promise<void> {
      if (!due) {
        const { over, end } = pause(onBeat(ms), signal)
        endPause = end
        await over
      }
      endPause = undefined
      due = false
    },
  }
}
