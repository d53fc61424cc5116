/** Holds background work back while requests keep coming, and lets it run freely otherwise. */

import { sleep } from '#lib/backoff.ts'

export interface PaceOptions {
  /** Units a second while requests keep coming. */
  busyPerSecond: number
  /** Requests come first as long as this says so. */
  busy(): Promise<boolean>
  /** Once aborted, nothing is held back any more: the process is about to stop. */
  released: AbortSignal
}

export interface Pace {
  /** Resolves when `units` may be done, at once when nothing presses; also when the signal aborts. */
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
  /** Records that ever came, for example the sum of a topic's end offsets. */
  total(): Promise<number>
  /** From so many new records a second on, requests keep coming. */
  busyFromPerSecond: number
  /** A rate is measured over this time and kept as long. */
  sampleMs: number
  now?(): number
}

/**
 * Says whether records keep arriving, however far behind the reader is. The log's own rate is the one measure that
 * holds on every driver and with the requests served by other processes. When the log does not answer, nothing presses.
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
      // A first sample, or one after a long rest, says nothing about the rate of this moment.
      const fresh = last && atMs - last.atMs < 5 * options.sampleMs ? last : undefined
      busy =
        fresh !== undefined &&
        (total - fresh.total) / ((atMs - fresh.atMs) / 1_000) >= options.busyFromPerSecond
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
