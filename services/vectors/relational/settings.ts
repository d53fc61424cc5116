/** The settings of the relational mirror: its writer, the gateway and what shows the groups of readers read the same. */

import { Type } from 'typebox'
import { type Environment, loadConfig } from '#lib/config.ts'

export const mirrorSettings = Type.Object({
  MIRROR: Type.Enum(['on', 'off'], {
    type: 'string',
    default: 'on',
    description:
      'off: no points are mirrored into tables, and search-pg answers 503 `mirror_off` ([relational-writer.md](relational-writer.md))',
  }),
  MIRROR_SLEEP_AFTER_MIN: Type.Integer({
    minimum: 0,
    maximum: 525_600,
    default: 60,
    description:
      'minutes without a search-pg after which the mirror is written every ten minutes only, until the next one; 0: never',
  }),
})

/** Throws AppError `invalid_configuration`. */
export function isMirrorOff(env: Environment): boolean {
  return loadConfig(mirrorSettings, env).MIRROR === 'off'
}

/** How a mirror that nobody asks sleeps; tests have shorter times. */
export interface SleepLimits {
  /** A gateway notes that it is asked no more often than this. */
  noteEveryMs: number
  /** Pending records are written this often while it sleeps, */
  takeEveryMs: number
  /** or when one writer has so many of them. */
  pendingMax: number
  /** The writer looks this often whether it may sleep, and how many records are pending. */
  lookMs: number
  /** In place of MIRROR_SLEEP_AFTER_MIN. */
  sleepAfterMs?: number
}

export const sleepLimits: SleepLimits = {
  noteEveryMs: 60_000,
  takeEveryMs: 600_000,
  pendingMax: 5_000,
  lookMs: 10_000,
}

/** How long the mirror is kept up to date after a question was noted; null: for ever. */
export function keptAwakeMs(minutes: number, { sleepAfterMs, noteEveryMs }: SleepLimits): number | null {
  if (sleepAfterMs === undefined && minutes === 0) return null
  // Questions right after one that was noted count with it.
  return (sleepAfterMs ?? minutes * 60_000) + noteEveryMs
}
