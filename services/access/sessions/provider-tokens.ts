/** Encrypts the refresh tokens of a provider, which are kept with the sessions that they began. */

import { randomBytes } from 'node:crypto'
import { parseSecretKey, seal, unseal } from '../secrets/sealing.ts'
import type { Secrets } from '../secrets/secrets.ts'

export interface ProviderTokens {
  /** It opens for this session alone. */
  seal(sessionId: string, token: string): Buffer
  /** Null for what was not sealed for this session. */
  open(sessionId: string, sealed: Buffer): string | null
}

/** Throws as `Secrets.get`. */
export async function openProviderTokens(secrets: Secrets): Promise<ProviderTokens> {
  const bytes = await secrets.get('provider-tokens', () => randomBytes(32))
  const key = parseSecretKey(bytes.toString('hex'))!
  const name = (sessionId: string) => `provider token of ${sessionId}`
  return {
    seal: (sessionId, token) => seal(key, name(sessionId), Buffer.from(token)),
    open: (sessionId, sealed) => unseal([key], name(sessionId), sealed)?.toString('utf8') ?? null,
  }
}
