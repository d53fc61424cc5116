/** One-time codes: the callback of the provider gives one to the page, which trades it for a session. */

import { hash, randomBytes } from 'node:crypto'
import type { SqlExecutor } from '#engines/relational/port.ts'
import { hashOfState } from './start-cookie.ts'

const codeTtlS = 60

export async function issueCode(executor: SqlExecutor, personUid: string, state: string): Promise<string> {
  const code = randomBytes(32).toString('base64url')
  await executor.query(
    `insert into platform.sign_in_codes (hash, person_uid, state_hash, expires_at)
     values ($1, $2, $3, now() + make_interval(secs => $4))`,
    [hash('sha256', code, 'buffer'), personUid, hashOfState(state), codeTtlS],
  )
  return code
}

/** The person of a code, once, for the browser with this state; null for every other code. */
export async function tradeCode(executor: SqlExecutor, code: string, state: string): Promise<string | null> {
  const { rows } = await executor.query<{ person_uid: string }>(
    `delete from platform.sign_in_codes
     where hash = $1 and state_hash = $2 and expires_at > now() returning person_uid`,
    [hash('sha256', code, 'buffer'), hashOfState(state)],
  )
  return rows[0]?.person_uid ?? null
}
