/**
 * What the browser that began a sign-in at the OpenID Connect provider keeps until it is done: encrypted in a cookie, so
 * that every instance can go on and nobody can begin for another.
 */

import { hash, randomBytes } from 'node:crypto'
import { createSealedCookies, type SealedCookies } from '../secrets/sealed-cookies.ts'
import { parseSecretKey, type SecretKey } from '../secrets/sealing.ts'
import type { Secrets } from '../secrets/secrets.ts'

/** Of the sign-in from its start to the session. */
export const startTtlS = 600

const name = 'oidc-start'

export interface BegunSignIn {
  state: string
  nonce: string
  /** Of PKCE. */
  verifier: string
  redirectUri: string
}

export type StartCookies = SealedCookies<BegunSignIn>

/** Throws as `Secrets.get`. */
export async function openStartCookies(secrets: Secrets): Promise<StartCookies> {
  const bytes = await secrets.get(name, () => randomBytes(32))
  return createStartCookies(parseSecretKey(bytes.toString('hex'))!)
}

export function createStartCookies(key: SecretKey, now?: () => number): StartCookies {
  return createSealedCookies(key, { name, ttlS: startTtlS }, now)
}

/** Binds what belongs to the sign-in to the browser that began it. */
export function hashOfState(state: string): Buffer {
  return hash('sha256', `oidc state ${state}`, 'buffer')
}
