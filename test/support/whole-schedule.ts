/** Which faults a seed brings, and when: the same ones for the same seed. */

import { createRandom } from './vectors.ts'

export type FaultKind =
  | 'kill'
  | 'pause'
  | 'restart'
  | 'broker kill'
  | 'broker restart'
  | 'broker pause'
  | 'broker silence'
  | 'qdrant kill'
  | 'qdrant silence'
  | 'postgres kill'
  | 'rebuild vectors'
  | 'rebuild relational'

export interface Fault {
  kind: FaultKind
  /** From the beginning of the load. */
  atMs: number
  /** Until it is healed. */
  forMs: number
  /** Its target: a process or a node by this number, modulo how many there are. */
  target: number
  /** For a silence: data sent meanwhile arrives late, or never. */
  late: boolean
  /** For a silence: only open connections go silent, new ones work. */
  newWork: boolean
}

interface Chance {
  kind: FaultKind
  weight: number
  forMs: [least: number, most: number]
}

/** Pauses are longer than sessions (10 s), silences of Qdrant longer than the time-out of a write (20 s). */
const chances: readonly Chance[] = [
  { kind: 'kill', weight: 20, forMs: [0, 3_000] },
  { kind: 'pause', weight: 16, forMs: [500, 15_000] },
  { kind: 'restart', weight: 10, forMs: [0, 1_000] },
  { kind: 'broker kill', weight: 6, forMs: [500, 6_000] },
  { kind: 'broker restart', weight: 4, forMs: [0, 1_000] },
  { kind: 'broker pause', weight: 4, forMs: [500, 8_000] },
  { kind: 'broker silence', weight: 10, forMs: [500, 12_000] },
  { kind: 'qdrant kill', weight: 4, forMs: [200, 3_000] },
  { kind: 'qdrant silence', weight: 6, forMs: [2_000, 25_000] },
  { kind: 'postgres kill', weight: 3, forMs: [200, 2_000] },
  { kind: 'rebuild vectors', weight: 5, forMs: [0, 0] },
  { kind: 'rebuild relational', weight: 4, forMs: [0, 0] },
]
const pauseMs = [300, 3_000] as const
const firstAtMs = 2_000

/** Faults begin before `lengthMs`, one after the other or several at a time. */
export function scheduleOf(seed: number, lengthMs: number): Fault[] {
  const random = createRandom(seed)
  const between = (least: number, most: number) => Math.round(least + random() * (most - least))
  const weights = chances.reduce((sum, { weight }) => sum + weight, 0)
  const choose = () => {
    let left = random() * weights
    return chances.find(({ weight }) => {
      left -= weight
      return left < 0
    }) as Chance
  }
  const schedule: Fault[] = []
  for (let atMs = firstAtMs; atMs < lengthMs; atMs += between(...pauseMs)) {
    const { kind, forMs } = choose()
    schedule.push({
      kind,
      atMs,
      forMs: between(...forMs),
      target: between(0, 1_000),
      late: random() < 0.7,
      newWork: random() < 0.5,
    })
  }
  return schedule
}
