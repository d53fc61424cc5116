/** For whom a caller may start runs, and which runs it may see. */

import { AppError } from '#lib/errors.ts'
import type { Caller } from '#services/identity/access/caller.ts'

/** The user of a new run. Throws AppError `user_mismatch` where a person names another one without being an admin. */
export function userFor(caller: Caller, asked: string | undefined): string {
  const own = caller.agentId
  if (asked === undefined || asked === own) return own
  if (caller.kind === 'agent' || caller.access === 'admin') return asked
  throw new AppError('user_mismatch', 'Leave userId out: you may start runs for yourself alone.')
}

/** Of a run or a dispatch. */
export interface Owned {
  callerUid: string
  userId: string
}

/** Who started it, its user and admins. */
export function maySee(caller: Caller, { callerUid, userId }: Owned): boolean {
  return caller.access === 'admin' || caller.uid === callerUid || caller.agentId === userId
}
