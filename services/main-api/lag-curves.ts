/** The lag of every group over time in one answer, thinned to what a small picture can show. */

import { keptMs, type LagHistory } from './lag-history.ts'

export interface LagCurves {
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
