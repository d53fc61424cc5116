/**
 * What the browser that began a sign-in at the OpenID Connect provider keeps until it is done: encrypted in a cookie, so
 * that every instance can go on and nobody can begin for another. The callback gives its page a one-time code, which the
 * same browser trades for a session.
 */

import { hash, randomBytes } from 'node:crypto'
import type { SqlExecutor } from '#engines/relational/port.ts'
import { createSealedCookies, type SealedCookies, type SecretKey } from '../secrets/sealing.ts'
import { type Secrets, sealingKey } from '../secrets/secrets.ts'

/** Longest sign-in, from its start to the session. */
export const startTtlS = 600

const name = 'oidc-start'

export interface BegunSignIn {
  state: string
  nonce: string
  /** Code verifier of PKCE. */
  verifier: string
  redirectUri: string
}

export type StartCookies = SealedCookies<BegunSignIn>

/** Throws as `Secrets.get`. */
export async function openStartCookies(secrets: Secrets): Promise<StartCookies> {
  return createStartCookies(await sealingKey(secrets, name))
}

export function createStartCookies(key: SecretKey, now?: () => number): StartCookies {
  return createSealedCookies(key, { name, ttlS: startTtlS }, now)
}

/** Binds what belongs to the sign-in to the browser that began it. */
function hashOfState(state: string): Buffer {
  return hash('sha256', `oidc state ${state}`, 'buffer')
}

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
