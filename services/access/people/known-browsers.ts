/** Browsers that signed in before: a cookie gives each tries of its own at the account that signed in, and nothing else. */

import { randomBytes } from 'node:crypto'
import { createSealedCookies, type SecretKey } from '../secrets/sealing.ts'
import { type Secrets, sealingKey } from '../secrets/secrets.ts'
import { accountOf } from './sign-in-limits.ts'

/** From the last sign-in on. */
export const knownBrowserTtlS = 180 * 86_400

const name = 'known-browser'

export interface KnownBrowsers {
  /** The cookie of a browser that signed in with this e-mail. One that had such a cookie keeps its id. */
  cookieFor(email: string, cookie: string | undefined): string
  /** Its id, where the cookie was given to it for this e-mail; undefined for a cookie that is forged, too old or of another account. */
  idOf(cookie: string | undefined, email: string): string | undefined
  /** Its id, whatever the account. */
  anyIdOf(cookie: string | undefined): string | undefined
}

/** The key is in the database: cookies outlive restarts and count at every instance. Throws as `Secrets.get`. */
export async function openKnownBrowsers(secrets: Secrets): Promise<KnownBrowsers> {
  return createKnownBrowsers(await sealingKey(secrets, name))
}

export function createKnownBrowsers(key: SecretKey, now?: () => number): KnownBrowsers {
  const cookies = createSealedCookies<{ id: string; account: string }>(
    key,
    { name, ttlS: knownBrowserTtlS },
    now,
  )
  const idOf: KnownBrowsers['idOf'] = (cookie, email) => {
    const known = cookies.open(cookie)
    return known?.account === accountOf(email) ? known.id : undefined
  }
  return {
    idOf,
    anyIdOf: (cookie) => cookies.open(cookie)?.id,
    cookieFor: (email, cookie) =>
      cookies.seal({
        id: idOf(cookie, email) ?? randomBytes(16).toString('base64url'),
        account: accountOf(email),
      }),
  }
}
