/** When a schedule is due: cron expressions in a time zone, or one time. */

import { Cron } from 'croner'

/** A firing that is later than this counts as missed. */
export const missedAfterMs = 60_000
const zoneLengthMax = 64
const fieldsOfCron = 5

/** What decides when a schedule fires. */
export interface Plan {
  /** Five fields; null: once, at `at`. */
  cron: string | null
  timezone: string
  at: Date | null
  endsAt: Date | null
  missed: 'skip' | 'once'
}

/** Null where it is no cron expression of five fields. */
function cronOf(cron: string, timezone: string): Cron | null {
  if (cron.trim().split(/\s+/).length !== fieldsOfCron) return null
  try {
    return new Cron(cron.trim(), { timezone, mode: '5-part' })
  } catch {
    return null
  }
}

export function isCron(cron: string): boolean {
  return cronOf(cron, 'UTC') !== null
}

/** A name of the IANA time zone database; offsets are none. */
export function isTimeZone(name: string): boolean {
  if (name.length > zoneLengthMax || !/^[A-Za-z]/.test(name)) return false
  try {
    new Intl.DateTimeFormat('en', { timeZone: name })
    return true
  } catch {
    return false
  }
}

/**
 * The first time behind `after`; null: none. As users of cron expect: a time that daylight saving leaves out is the moment
 * after the gap, and of one that comes twice the first counts (`man 8 cron`); every hour and every minute are not changed by it.
 */
export function nextTime({ cron, timezone, at, endsAt }: Plan, after: Date): Date | null {
  const next =
    cron === null ? (at && at > after ? at : null) : (cronOf(cron, timezone)?.nextRun(after) ?? null)
  return next && endsAt && next > endsAt ? null : next
}

/** What to do about a schedule whose time has come. */
export interface Due {
  /** The planned time that is fired now; null: none is. */
  fires: Date | null
  /** The first planned time that nobody fired, and is not made up for. */
  missed: Date | null
  next: Date | null
}

/** `planned`: the time that was due first; `now`: by the clock of the database. */
export function dueOf(plan: Plan, planned: Date, now: Date): Due {
  const next = nextTime(plan, now)
  const lateFrom = now.getTime() - missedAfterMs
  if (planned.getTime() >= lateFrom) return { fires: planned, missed: null, next: nextTime(plan, planned) }
  // One that came within the last minute is fired whatever was missed before it.
  const recent = nextTime(plan, new Date(lateFrom))
  if (recent && recent <= now) return { fires: recent, missed: planned, next }
  return plan.missed === 'once'
    ? { fires: planned, missed: null, next }
    : { fires: null, missed: planned, next }
}
