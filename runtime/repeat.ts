/**
 * Repeats background work until the process stops, or one thing until it succeeds; what fails is logged and tried again. Slows
 * work down while requests keep coming, and lets it run freely otherwise.
 */

import type { Logger } from 'pino'
import { backoffMs, createWakeup, isDoubling, sleep, type Wakeup } from '#lib/backoff.ts'
import { describeError, isUnavailable, whyWaiting } from '#lib/errors.ts'
import type { Closeable } from '#lib/resource.ts'

/** Between two tries of what must succeed: a dead letter, beforeCommit. */
const untilDoneBackoff = { baseMs: 100, maxMs: 5_000 }
/** Between two tries while an engine is away. */
const awayBackoff = { baseMs: 250, maxMs: 5_000 }

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

/** Resolves after the signal aborted and the current run ended. A failure that lasts is logged when it begins, then at each doubling of the tries. */
export async function repeatUntil(options: RepeatOptions, work: () => Promise<unknown>): Promise<void> {
  const { what, everyMs, signal, log, wakeup = createWakeup() } = options
  let tries = 0
  await sleep(options.firstAfterMs ?? 0, signal)
  while (!signal.aborted) {
    try {
      await work()
      if (tries > 0) log.info({ what, tries }, 'repeat.recovered')
      tries = 0
    } catch (error) {
      tries += 1
      if (isDoubling(tries)) log.warn({ what, tries, ...whyWaiting(error) }, 'repeat.failing')
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

/**
 * Repeats while an engine is away: says so at first, then at each doubling of the tries. Throws the fault of the last one when
 * `signal` aborts, and any other at once.
 */
export async function untilThere<T>(
  parts: {
    what: string
    log: Logger
    signal: AbortSignal | undefined
    /** Default: an engine is away. */
    isPassing?: (error: unknown) => boolean
  },
  work: () => Promise<T>,
): Promise<T> {
  const { what, log, signal, isPassing = isUnavailable } = parts
  for (let tries = 1; ; tries++) {
    try {
      const result = await work()
      if (tries > 1) log.info({ what, tries }, 'start.goes-on')
      return result
    } catch (error) {
      if (!isPassing(error) || signal?.aborted) throw error
      if (isDoubling(tries)) log.warn({ what, tries, ...whyWaiting(error) }, 'start.waiting')
      await sleep(Math.max(50, backoffMs(tries - 1, awayBackoff)), signal)
    }
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

interface PaceOptions {
  /** Units a second while requests keep coming. */
  busyPerSecond: number
  /** True while requests come first. */
  busy(): Promise<boolean>
  /** Once aborted, nothing is slowed down any more: the process is about to stop. */
  released: AbortSignal
}

export interface Pace {
  /** Resolves when `units` may be done, at once when requests are few; also when the signal aborts. */
  take(units: number, signal: AbortSignal): Promise<void>
}

/** Units are counted over all callers of this pace together. */
export function createPace(options: PaceOptions): Pace {
  let freeAtMs = 0
  return {
    async take(units, signal) {
      const busy = !options.released.aborted && (await options.busy())
      const now = performance.now()
      if (!busy) {
        freeAtMs = now
        return
      }
      const beginsAtMs = Math.max(now, freeAtMs)
      freeAtMs = beginsAtMs + (units / options.busyPerSecond) * 1_000
      if (beginsAtMs > now)
        await sleep(Math.ceil(beginsAtMs - now), AbortSignal.any([signal, options.released]))
    },
  }
}

interface ArrivalOptions {
  /** All records that ever arrived, for example the sum of a topic's end offsets. */
  total(): Promise<number>
  /** Requests keep coming from this rate of new records on. */
  busyFromPerSecond: number
  /** The rate is measured over this time, and is valid for as long. */
  sampleMs: number
  /**
   * Where the rate is low, requests may have begun just now: it is measured over this time, too, for which the caller
   * waits. Default 0: not at all.
   */
  freshSampleMs?: number
  now?(): number
  wait?(ms: number): Promise<void>
}

interface Sample {
  atMs: number
  total: number
}

/**
 * Says whether records keep arriving, however far behind the reader is. The rate of the log is the one measure that
 * works on every driver and counts requests that other processes serve. While the log does not answer, nothing is
 * slowed down.
 */
export function createArrivals(options: ArrivalOptions): () => Promise<boolean> {
  const now = options.now ?? (() => performance.now())
  const wait = options.wait ?? sleep
  let last: Sample | undefined
  let busy = false
  let sampling: Promise<void> | undefined
  const sampleNow = async (): Promise<Sample> => ({ total: await options.total(), atMs: now() })
  const isBusy = (from: Sample, to: Sample) =>
    (to.total - from.total) / ((to.atMs - from.atMs) / 1_000) >= options.busyFromPerSecond
  async function sample(): Promise<void> {
    try {
      const found = await sampleNow()
      // A first sample, or one after a long pause, says nothing about the current rate.
      const recent = last && found.atMs - last.atMs < 5 * options.sampleMs ? last : undefined
      last = found
      busy = recent !== undefined && isBusy(recent, found)
      if (busy || !options.freshSampleMs) return
      await wait(options.freshSampleMs)
      last = await sampleNow()
      busy = isBusy(found, last)
    } catch {
      busy = false
    }
  }
  return async () => {
    if (!last || now() - last.atMs >= options.sampleMs) {
      sampling ??= sample().finally(() => {
        sampling = undefined
      })
      await sampling
    }
    return busy
  }
}
