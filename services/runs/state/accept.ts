/** Accepts runs of callers: one row each, in the lane of its agent, user and session. */

import type { Relational } from '#engines/relational/port.ts'
import { AppError } from '#lib/errors.ts'
import type { LocalDispatcher } from './local-runs.ts'
import { callerWaitingMax, type Inserted, insertRun, type NewRunRow } from './new-run.ts'
import { wakeDispatchers } from './notice.ts'
import { readRun } from './read.ts'
import type { Content, Run, RunTrigger } from './types.ts'

export { newRunId } from './new-run.ts'

/** Runs take seconds. */
const retryAfterSeconds = 5

export interface NewRun {
  runId: string
  slug: string
  agent: string
  userId: string
  sessionId: string
  trigger: RunTrigger
  callerUid: string
  requestId: string | null
  traceparent?: string
  message: Content
  streaming: boolean
  stateDelta?: Record<string, unknown>
  customMetadata?: Record<string, unknown>
  parentRunId?: string
  rootRunId?: string
  goalId?: number
  depth?: number
  /** What happens when a run of the lane is queued or running. Default enqueue. */
  onBusy?: 'enqueue' | 'reject'
}

/** The lane is busy and the caller does not want to wait. */
export class SessionBusyError extends AppError {
  readonly activeRunId: string

  constructor(activeRunId: string) {
    super('session_busy', `The session has a run that has not ended: ${activeRunId}.`)
    this.activeRunId = activeRunId
  }
}

/** `isNew`: it did not exist before. */
export interface Accepted {
  run: Run
  isNew: boolean
}

/**
 * Accepts a run; one that exists under its id is given as it is. `local` is a dispatcher of this process: it begins at once
 * where nothing else waits. Throws AppError `user_mismatch` when the session has runs of another user of this name,
 * SessionBusyError, AppError `session_queue_full` when ten runs of callers wait in its lane, or `too_many_waiting` when a
 * hundred of this caller wait at its node.
 */
export async function acceptRun(
  relational: Relational,
  run: NewRun,
  local?: LocalDispatcher,
): Promise<Accepted> {
  const { onBusy = 'enqueue', ...row } = run
  // With one session no other commit waits for the notice.
  const notify = relational.driver === 'embedded'
  const atOnce = local?.takeAtOnce(run)
  const made = await insertRun(relational, row satisfies NewRunRow, {
    reject: onBusy === 'reject',
    notify,
    ...(atOnce ? { claim: atOnce.claim } : {}),
  })
  if (made.run) {
    if (made.claimed) atOnce?.begin(made.claimed)
    else if (!notify) wakeDispatchers(relational, run.slug)
    return { run: made.run, isNew: true }
  }
  const known = await readRun(relational, run.runId)
  if (known) return { run: known, isNew: false }
  throw refusal(made, run.agent)
}

/** Why a run at `agent` was not made: SessionBusyError, or AppError `user_mismatch`, `session_queue_full` or `too_many_waiting`. */
export function refusal({ refused, active }: Extract<Inserted, { run: null }>, agent: string): AppError {
  if (refused === 'user') {
    const message =
      'This session belongs to another user of the same name: an agent that had the id before, or a name that was free. Send ' +
      'another sessionId, or none.'
    return new AppError('user_mismatch', message)
  }
  if (refused === 'busy' && active !== null) return new SessionBusyError(active)
  if (refused === 'caller') {
    const message =
      `${callerWaitingMax} runs of yours wait at ${agent} already, which is the most. Send this one when some have ended, ` +
      `or cancel some: GET /runs?agent=${agent}&status=queued lists them.`
    return new AppError('too_many_waiting', message, { retryAfter: retryAfterSeconds })
  }
  const message = 'Ten runs wait in this session already.'
  return new AppError('session_queue_full', message, { retryAfter: retryAfterSeconds })
}
