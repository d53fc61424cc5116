/**
 * Times commands of one process each next to `node -e 0` on the same Node: minima of interleaved rounds, in
 * milliseconds.
 */

import { spawnSync } from 'node:child_process'
import { fileURLToPath } from 'node:url'

const stidx = fileURLToPath(new URL('../bin/stidx.cjs', import.meta.url))
const timeoutMs = 60_000
const allQueriesRounds = 3
const slowestKept = 8

/** Arguments of the command; what it prints is read, and must be one JSON document. */
export type Shot = string[]

export interface ShotTimes {
  bare: number
  shots: number[]
}

export function timeShots(shots: readonly Shot[], rounds: number): ShotTimes {
  const times: ShotTimes = {
    bare: Number.POSITIVE_INFINITY,
    shots: shots.map(() => Number.POSITIVE_INFINITY),
  }
  for (let round = 0; round < rounds; round++) {
    times.bare = Math.min(times.bare, run(['-e', '0']))
    shots.forEach((shot, i) => {
      times.shots[i] = Math.min(times.shots[i]!, run([stidx, ...shot, '--json']))
    })
  }
  return times
}

/** The few slowest of many, by the minima of a few rounds: only these are worth many rounds. */
export function slowestOf(shots: readonly Shot[]): Shot[] {
  const { shots: times } = timeShots(shots, allQueriesRounds)
  const order = times.map((time, i) => [time, i] as const).sort(([a], [b]) => b - a)
  return order.slice(0, slowestKept).map(([, i]) => shots[i]!)
}

function run(args: string[]): number {
  const startedAt = performance.now()
  const ended = spawnSync(process.execPath, args, { stdio: ['ignore', 'pipe', 'pipe'], timeout: timeoutMs })
  const took = performance.now() - startedAt
  // 1 says that nothing was found.
  if (ended.status !== 0 && ended.status !== 1) throw new Error(`${args.join(' ')}: ${ended.stderr}`)
  return took
}
