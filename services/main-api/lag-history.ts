/** The lag of every reader group over the last six hours, a sample every five seconds, in a ring of fixed size. */

import type { Logger } from 'pino'
import type { Closeable } from '#lib/resource.ts'
import type { GroupLag } from '#operations/lag.ts'
import { startRepeating } from '#runtime/repeat.ts'

export const sampleEveryMs = 5_000
export const keptMs = 6 * 60 * 60_000
const samplesMax = keptMs / sampleEveryMs
/** More groups than any platform has. */
const groupsMax = 200
/** No sample: a float that no lag is. */
const nothing = -1

export interface LagSample {
  at: string
  lag: number
}

export interface LagHistory extends Closeable {
  /** The samples of the last minutes, the oldest first; null for a group that was never seen. */
  of(group: string, minutes: number): LagSample[] | null
}

interface LagHistoryParts {
  read(): Promise<readonly Pick<GroupLag, 'group' | 'lag'>[]>
  log: Pick<Logger, 'warn' | 'error'>
  now?: () => number
}

/** Samples until it is closed. What could not be read is a gap. */
export function openLagHistory({ read, log, now = Date.now }: LagHistoryParts): LagHistory {
  const ring = createLagRing()
  const sampling = startRepeating(
    { what: 'lag history', everyMs: sampleEveryMs, log: log as Logger },
    async () => ring.add(now(), await read()),
  )
  return { of: (group, minutes) => ring.of(group, now() - minutes * 60_000), close: sampling.close }
}

/** The samples themselves: eight bytes for each of a group, and their times once. */
export function createLagRing() {
  const times = new Float64Array(samplesMax)
  const lags = new Map<string, Float64Array>()
  let count = 0
  return {
    add(atMs: number, groups: readonly Pick<GroupLag, 'group' | 'lag'>[]): void {
      const slot = count % samplesMax
      times[slot] = atMs
      for (const own of lags.values()) own[slot] = nothing
      for (const { group, lag } of groups) {
        if (!lags.has(group) && lags.size >= groupsMax) continue
        const own = lags.get(group) ?? new Float64Array(samplesMax).fill(nothing)
        lags.set(group, own)
        own[slot] = lag
      }
      count += 1
    },
    of(group: string, fromMs: number): LagSample[] | null {
      const own = lags.get(group)
      if (!own) return null
      const samples: LagSample[] = []
      for (let n = Math.max(0, count - samplesMax); n < count; n++) {
        const slot = n % samplesMax
        const lag = own[slot]!
        if (lag === nothing || times[slot]! < fromMs) continue
        samples.push({ at: new Date(times[slot]!).toISOString(), lag })
      }
      return samples
    },
  }
}

interface LagCurves {
  /** The end of each step, the oldest first. */
  at: string[]
  /** For each step the highest lag of it; null where nothing was sampled. */
  groups: { group: string; lag: (number | null)[] }[]
}

export const curveMinutesMax = keptMs / 60_000

export function lagCurves(
  history: Pick<LagHistory, 'of'>,
  groups: readonly string[],
  { minutes, steps, nowMs }: { minutes: number; steps: number; nowMs: number },
): LagCurves {
  const stepMs = (minutes * 60_000) / steps
  const fromMs = nowMs - minutes * 60_000
  return {
    at: Array.from({ length: steps }, (_, step) => new Date(fromMs + (step + 1) * stepMs).toISOString()),
    groups: groups.map((group) => {
      const lag: (number | null)[] = new Array(steps).fill(null)
      for (const sample of history.of(group, minutes) ?? []) {
        const step = Math.min(steps - 1, Math.max(0, Math.floor((Date.parse(sample.at) - fromMs) / stepMs)))
        lag[step] = Math.max(lag[step] ?? 0, sample.lag)
      }
      return { group, lag }
    }),
  }
}
