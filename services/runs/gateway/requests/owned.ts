/** Finds runs and dispatches for a caller; those that are not the caller's are as if they were not there. */

import type { SqlExecutor } from '#engines/relational/port.ts'
import { AppError } from '#lib/errors.ts'
import type { Caller } from '#services/access/callers/caller.ts'
import { readDispatch } from '../../state/dispatches.ts'
import { readRun } from '../../state/read.ts'
import type { Dispatch, Run } from '../../state/types.ts'
import { maySee } from './users.ts'

/** Throws AppError `run_not_found`. */
export async function runFor(executor: SqlExecutor, caller: Caller, runId: string): Promise<Run> {
  const run = /^run_[0-9a-f]{32}$/.test(runId) ? await readRun(executor, runId) : null
  if (run && (await mayRead(executor, caller, run))) return run
  throw new AppError('run_not_found', 'There is no such run, or it is not yours.')
}

/** Throws AppError `dispatch_not_found`. */
export async function dispatchFor(executor: SqlExecutor, caller: Caller, goalId: string): Promise<Dispatch> {
  const number = /^[1-9]\d{0,15}$/.test(goalId) ? Number(goalId) : Number.NaN
  const dispatch = Number.isSafeInteger(number) ? await readDispatch(executor, number) : null
  if (dispatch && maySee(caller, dispatch)) return dispatch
  throw new AppError('dispatch_not_found', 'There is no such dispatch, or it is not yours.')
}

/** Runs that joined belong to who started the first one. */
async function mayRead(executor: SqlExecutor, caller: Caller, run: Run): Promise<boolean> {
  if (caller.access === 'admin') return true
  if (run.trigger === 'report') return false
  if (maySee(caller, run)) return true
  if (run.goalId !== null) {
    const dispatch = await readDispatch(executor, run.goalId)
    return dispatch !== null && maySee(caller, dispatch)
  }
  const root = run.rootRunId === run.runId ? null : await readRun(executor, run.rootRunId)
  return root !== null && root.trigger !== 'report' && maySee(caller, root)
}
