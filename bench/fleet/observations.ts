/** Samples a stack every ten seconds while the load runs: memory, processor, and how far groups are behind. */

import type { Stack } from './stack.ts'

export interface Observation {
  /** Since the load began. */
  seconds: number
  /** By the name of the watched part. */
  memory: Record<string, number>
  processor: Record<string, number>
  written: Record<string, number>
  /** Records by reader group. */
  lag: Record<string, number>
  /** Events by webhook target. */
  waiting: Record<string, number>
  /** Points of all collections. */
  points: number
}

export async function observe({ watched, admin }: Stack, seconds: number): Promise<Observation> {
  const read = (of: 'memory' | 'processor' | 'written') =>
    Object.fromEntries(watched.map((one) => [one.name, one[of]()]))
  const figures = { memory: read('memory'), processor: read('processor'), written: read('written') }
  const state = await admin.brainState()
  return {
    seconds,
    ...figures,
    lag: state.log.groups,
    waiting: Object.fromEntries(Object.entries(state.webhooks).map(([target, { lag }]) => [target, lag])),
    points: Object.values(state.collections).reduce((sum, count) => sum + count, 0),
  }
}

export function behind({ lag, waiting }: Observation): number {
  return [...Object.values(lag), ...Object.values(waiting)].reduce((sum, count) => sum + count, 0)
}
