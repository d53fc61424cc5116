/** For whom a caller may start runs, and which runs it may see. */

import type { SqlExecutor } from '#engines/relational/port.ts'
import { AppError } from '#lib/errors.ts'
import type { Caller } from '#services/access/callers/caller.ts'

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

/** Of a run or a dispatch. */
export interface Owned {
  callerUid: string
  /** Null: nobody of the platform, or not known. */
  userUid: string | null
}

/** Who started it, its user and admins. Names do not count: another agent may have this one's id by now. */
export function maySee({ access, uid }: Caller, { callerUid, userUid }: Owned): boolean {
  return access === 'admin' || uid === callerUid || uid === userUid
}
