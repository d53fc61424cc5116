/**
 * The ID tokens that sessions buy: short-lived at the local issuer, so that most of what a thief of one could do is over soon.
 * The refresh token of a provider is kept encrypted with the session that it began.
 */

import type { AnyIdentityProvider } from '#engines/identity/port.ts'
import { AppError } from '#lib/errors.ts'
import type { FirebasePeople } from '../people/firebase.ts'
import { seal, unseal } from '../secrets/sealing.ts'
import { type Secrets, sealingKey } from '../secrets/secrets.ts'

/** Google knows an hour alone. */
const sessionTokenTtlS = 600

interface SessionTokensParts {
  identity: AnyIdentityProvider
  firebase: FirebasePeople | null
  providerTokens: ProviderTokens
}

interface BuyingSession {
  id: string
  personUid: string
  /** As it is kept; null for a session that has just begun, or began here. */
  providerToken: Buffer | null
}

export interface BoughtToken {
  idToken: string
  expiresInS: number
}

/**
 * An ID token of the session's person that names the session, so that it ends with it. Under Firebase the account is asked
 * for first. Throws AppError `unauthorized` when it is not in force any more, `identity_unavailable`.
 */
export async function buyIdToken(parts: SessionTokensParts, session: BuyingSession): Promise<BoughtToken> {
  const { identity, firebase } = parts
  const claims = { session: session.id }
  if (identity.driver === 'local') {
    return {
      idToken: await identity.idToken(session.personUid, claims, sessionTokenTtlS),
      expiresInS: sessionTokenTtlS,
    }
  }
  if (!firebase) throw new AppError('identity_unavailable', 'FIREBASE_WEB_API_KEY is not set.')
  if (session.providerToken !== null) {
    const token = parts.providerTokens.open(session.id, session.providerToken)
    if (token === null)
      throw new AppError('unauthorized', 'The session does not open any more: sign in again.')
    await firebase.confirm(token)
  }
  const { customToken } = await identity.createCustomToken(session.personUid, claims)
  return firebase.exchange(customToken)
}

export interface ProviderTokens {
  /** It opens for this session alone. */
  seal(sessionId: string, token: string): Buffer
  /** Null for a token that was not sealed for this session. */
  open(sessionId: string, sealed: Buffer): string | null
}

/** Throws as `Secrets.get`. */
export async function openProviderTokens(secrets: Secrets): Promise<ProviderTokens> {
  const key = await sealingKey(secrets, 'provider-tokens')
  const name = (sessionId: string) => `provider token of ${sessionId}`
  return {
    seal: (sessionId, token) => seal(key, name(sessionId), Buffer.from(token)),
    open: (sessionId, sealed) => unseal([key], name(sessionId), sealed)?.toString('utf8') ?? null,
  }
}
