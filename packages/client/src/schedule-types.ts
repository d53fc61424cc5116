/** Schedules, as a client sees them. */

import type { Part } from './run-types.ts'

/** Times are ISO texts or dates. */
export interface NewSchedule {
  /** A codename or slug. */
  agent?: string
  /** In place of `agent`: all agents. */
  dispatch?: boolean
  /** A text, in place of `parts`. */
  message?: string
  parts?: Part[]
  /** Five fields: minute, hour, day of the month, month, day of the week. */
  cron?: string | null
  /** For `cron`, by its name in the IANA database. Default UTC. */
  timezone?: string
  /** Once, in place of `cron`. */
  at?: string | Date | null
  /** `new` (the default): each time a new one; otherwise the id of the session that it goes on in. */
  session?: string
  /** For times at which the platform was not there: `skip` (the default), or one run for all of them. */
  missed?: 'skip' | 'once'
  paused?: boolean
  endsAt?: string | Date | null
  name?: string | null
}

export interface Schedule {
  id: string
  name: string | null
  /** Null: all agents. */
  agent: string | null
  dispatch: boolean
  /** In lists the first 200 characters. */
  message: string
  /** Where it is shown alone. */
  parts?: Part[]
  cron: string | null
  timezone: string
  at: string | null
  session: string
  missed: 'skip' | 'once'
  paused: boolean
  /** Where the platform paused it. */
  pausedReason: string | null
  endsAt: string | null
  /** Null: it fires no more, or is paused. */
  nextAt: string | null
  lastAt: string | null
  lastRunId: string | null
  lastGoalId: number | null
  /** In a row, up to now; at ten it is paused. */
  failures: number
  owner: string
  createdAt: string
  updatedAt: string
}

/** What became of one planned time. */
export interface ScheduledRun {
  plannedAt: string
  firedAt: string
  runId: string | null
  /** The dispatch, where it is for all agents. */
  goalId: number | null
  /** As its run or dispatch; `refused`: nothing was started, `missed`: the platform was not there in time. */
  status: string
  error: { code: string; message: string } | null
}

type Page = { limit?: number; cursor?: string; signal?: AbortSignal }

export interface ScheduleCalls {
  /** Throws ProblemError `validation_failed`, `agent_not_found`, `too_many_schedules`. */
  create(schedule: NewSchedule & { idempotencyKey?: string; signal?: AbortSignal }): Promise<Schedule>
  /** The newest first. */
  list(page?: Page): Promise<{ schedules: Schedule[]; next: string | undefined }>
  /** Throws ProblemError `schedule_not_found`, as those below. */
  get(id: string, options?: { signal?: AbortSignal }): Promise<Schedule>
  /** Fields that are left out stay; `paused` pauses and resumes. */
  update(id: string, changes: NewSchedule & { signal?: AbortSignal }): Promise<Schedule>
  delete(id: string, options?: { signal?: AbortSignal }): Promise<{ id: string; deleted: true }>
  /** What became of its times, the newest first. */
  runs(id: string, page?: Page): Promise<{ runs: ScheduledRun[]; next: string | undefined }>
}
