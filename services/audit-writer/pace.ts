/** Holds background work back while the process is busy with requests, and lets it run freely otherwise. */

import { type EventLoopUtilization, performance } from 'node:perf_hooks'
import { sleep } from '#lib/backoff.ts'

export interface PaceOptions {
  /** Units a second while the process is busy. */
  busyPerSecond: number
  /** 0..1: from this share of busy event-loop time on, requests come first. */
  busyFrom: number
  /** Once aborted, nothing is held back any more: the process is about to stop. */
  released: AbortSignal
  /** Busy share of the last moments; default: of this process's event loop. */
  utilization?(): number
}

export interface Pace {
  /** Resolves when `units` may be done, at once when nothing presses; also when the signal aborts. */
  take(units: number, signal: AbortSignal): Promise<void>
}

/** Units are counted over all callers of this pace together. */
export function createPace(options: PaceOptions): Pace {
  const utilization = options.utilization ?? eventLoopShare()
  let freeAtMs = 0
  return {
    async take(units, signal) {
      const now = performance.now()
      const busy = !options.released.aborted && utilization() >= options.busyFrom
      const beginsAtMs = Math.max(now, freeAtMs)
      freeAtMs = busy ? beginsAtMs + (units / options.busyPerSecond) * 1_000 : now
      if (busy && beginsAtMs > now) {
        await sleep(beginsAtMs - now, AbortSignal.any([signal, options.released]))
      }
    },
  }
}

const sampleMs = 250

/** The event loop's busy share over the last quarter of a second or more. */
function eventLoopShare(): () => number {
  let since: EventLoopUtilization = performance.eventLoopUtilization()
  let sampledAt = performance.now()
  let share = 0
  return () => {
    if (performance.now() - sampledAt >= sampleMs) {
      share = performance.eventLoopUtilization(since).utilization
      since = performance.eventLoopUtilization()
      sampledAt = performance.now()
    }
    return share
  }
}
