/** Slows background work down while requests keep coming, and lets it run freely otherwise. */

import { sleep } from '#lib/backoff.ts'

export interface PaceOptions {
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
      const beginsAtMs = Math.max(now, freeAtMs)
      freeAtMs = busy ? beginsAtMs + (units / options.busyPerSecond) * 1_000 : now
      if (busy && beginsAtMs > now) {
        await sleep(beginsAtMs - now, AbortSignal.any([signal, options.released]))
      }
    },
  }
}

export interface ArrivalOptions {
  /** All records that ever arrived, for example the sum of a topic's end offsets. */
  total(): Promise<number>
  /** Requests keep coming from this rate of new records on. */
  busyFromPerSecond: number
  /** The rate is measured over this time, and is valid for as long. */
  sampleMs: number
  now?(): number
}

/**
 * Says whether records keep arriving, however far behind the reader is. The rate of the log is the one measure that
 * works on every driver and counts requests that other processes serve. While the log does not answer, nothing is
 * slowed down.
 */
export function createArrivals(options: ArrivalOptions): () => Promise<boolean> {
  const now = options.now ?? (() => performance.now())
  let last: { atMs: number; total: number } | undefined
  let busy = false
  let sampling: Promise<void> | undefined
  async function sample(): Promise<void> {
    try {
      const total = await options.total()
      const atMs = now()
      // A first sample, or one after a long pause, says nothing about the current rate.
      const recent = last && atMs - last.atMs < 5 * options.sampleMs ? last : undefined
      busy =
        recent !== undefined &&
        (total - recent.total) / ((atMs - recent.atMs) / 1_000) >= options.busyFromPerSecond
      last = { atMs, total }
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
