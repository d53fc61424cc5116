/** Whose runs and dispatches are: for whom a caller may start them, and which ones it may see. Others are as if they were not there. */

import type { SqlExecutor } from '#engines/relational/port.ts'
import { AppError } from '#lib/errors.ts'
import type { Caller } from '#services/access/callers/caller.ts'
import { readDispatch } from '../state/dispatches.ts'
import { readRun } from '../state/read.ts'
import { findSession, type SeenBy, type SessionKey } from '../state/sessions.ts'
import type { Dispatch, Run, WholeRun } from '../state/types.ts'

/** The uid of the agent, person or operator that the name means; null for a free one. */
export async function uidNamed(executor: SqlExecutor, name: string): Promise<string | null> {
  const statement = 'select platform.uid_named($1) as uid'
  const { rows } = await executor.query<{ uid: string | null }>(statement, [name])
  return rows[0]!.uid
}

/**
 * The user of a new run. Agents name their own users as they like, but nobody of the platform. Throws AppError
 * `user_mismatch`.
 */
export async function userFor(
  executor: SqlExecutor,
  caller: Caller,
  asked: string | undefined,
): Promise<string> {
  const own = caller.agentId
  if (asked === undefined || asked === own) return own
  if (caller.access === 'admin') return asked
  if (caller.kind === 'person') {
    throw new AppError('user_mismatch', 'Leave userId out: you may start runs for yourself alone.')
  }
  const uid = await uidNamed(executor, asked)
  if (uid === null || uid === caller.uid) return asked
  throw new AppError(
    'user_mismatch',
    'This userId is an agent or a person of the platform: only that one and admins may name it.',
  )
}

/** The owner of a run or a dispatch. */
interface Owned {
  callerUid: string
  /** Null: nobody of the platform, or not known. */
  userUid: string | null
}

/** Who started it, its user and admins. Names do not count: another agent may have this one's id by now. */
export function maySee({ access, uid }: Caller, { callerUid, userUid }: Owned): boolean {
  return access === 'admin' || uid === callerUid || uid === userUid
}

/** Throws AppError `run_not_found`. */
export async function runFor(executor: SqlExecutor, caller: Caller, runId: string): Promise<WholeRun> {
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

/** Which runs of others the caller sees: an admin all, everybody else none but those that are its own or that it started. */
export function seenBy({ access, uid }: Caller): SeenBy {
  return access === 'admin' ? null : uid
}

/** Without `userId` a session of the caller. Throws AppError `session_not_found`. */
export async function sessionFor(
  executor: SqlExecutor,
  caller: Caller,
  { userId = caller.agentId, sessionId }: { userId?: string | undefined; sessionId: string },
): Promise<SessionKey> {
  const session = await findSession(executor, seenBy(caller), { userId, sessionId })
  if (session) return session
  throw new AppError('session_not_found', 'There is no such session of this user, or it is not yours.')
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
