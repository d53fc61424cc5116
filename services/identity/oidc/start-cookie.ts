/**
 * What the browser that began a sign-in at the OpenID Connect provider keeps until it is done: encrypted in a cookie, so
 * that every instance can go on and nobody can begin for another.
 */

import { hash, randomBytes } from 'node:crypto'
import { parseSecretKey, type SecretKey, seal, unseal } from '../secrets/sealing.ts'
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

export interface StartCookies {
  seal(begun: BegunSignIn): string
  /** Null for whatever is not a cookie of this installation, or too old. */
  open(cookie: string | undefined): BegunSignIn | null
}

/** Throws as `Secrets.get`. */
export async function openStartCookies(secrets: Secrets): Promise<StartCookies> {
  const bytes = await secrets.get(name, () => randomBytes(32))
  return createStartCookies(parseSecretKey(bytes.toString('hex'))!)
}

export function createStartCookies(key: SecretKey, now: () => number = Date.now): StartCookies {
  return {
    seal(begun) {
      const text = JSON.stringify({ ...begun, until: now() + startTtlS * 1_000 })
      return seal(key, name, Buffer.from(text)).toString('base64url')
    },
    open(cookie) {
      const bytes = unseal([key], name, Buffer.from(cookie ?? '', 'base64url'))
      if (!bytes) return null
      const { until, ...begun } = JSON.parse(bytes.toString('utf8')) as BegunSignIn & { until: number }
      return until > now() ? begun : null
    },
  }
}

/** Binds what belongs to the sign-in to the browser that began it. */
export function hashOfState(state: string): Buffer {
  return hash('sha256', `oidc state ${state}`, 'buffer')
}
