/**
 * The identity provider: it makes custom tokens, which clients trade for ID tokens, and says whose ID token one is. What an
 * ID token may do is not its matter: roles and revocation are looked up on every call by services/access/tokens.
 */

import type { Logger } from 'pino'
import type { Closeable } from '#lib/resource.ts'

export interface VerifiedToken {
  uid: string
  /** In ms since 1970. */
  issuedAt: number
  expiresAt: number
  /** When its bearer signed in, in ms since 1970. */
  authTime: number
  /** All claims of the token. */
  claims: Record<string, unknown>
}

export interface IdentityProvider extends Closeable {
  readonly driver: 'local' | 'firebase'
  /**
   * A signed statement that its bearer is `uid`; its claims will be claims of the ID token. Rejects with AppError
   * `identity_unavailable`.
   */
  createCustomToken(
    uid: string,
    claims: Record<string, string>,
  ): Promise<{ customToken: string; expiresInS: number }>
  /**
   * Checks signature, issuer, audience and times. Rejects with AppError `unauthorized`, `token_expired` or
   * `identity_unavailable`.
   */
  verifyIdToken(token: string): Promise<VerifiedToken>
}

/** What a trade of a custom token, or of a refresh token, gives. */
export interface SignedIn {
  uid: string
  idToken: string
  refreshToken: string
  expiresInS: number
}

/** The local driver is the whole provider: it also does what Google's servers do in the other case. */
export interface LocalIssuer extends IdentityProvider {
  readonly driver: 'local'
  /** In `aud` of its ID tokens. */
  readonly projectId: string
  /** The name in its tokens, and the address below which its documents are. */
  issuer(): string
  /** An ID token of these claims, without a refresh token. */
  idToken(uid: string, claims: Record<string, string>, lifetimeS: number): Promise<string>
  /** An ID token of these claims (default lifetime: an hour) and a refresh token that buys the next ones. */
  signIn(uid: string, claims: Record<string, string>, lifetimeS?: number): Promise<SignedIn>
  /** Trades a custom token. Rejects with AppError `identity_refused`, whose message is Identity Toolkit's. */
  exchange(customToken: string): Promise<SignedIn>
  /** Trades a refresh token, which stays the same. Rejects as `exchange`. */
  refresh(refreshToken: string): Promise<SignedIn>
  /** The public keys (RFC 7517) of all tokens that may still be valid. */
  jwks(): { keys: Record<string, unknown>[] }
  /** Signs with a new key from now on; tokens of the old one stay valid until they run out. */
  rotateKeys(): Promise<void>
}

export type AnyIdentityProvider = LocalIssuer | (IdentityProvider & { readonly driver: 'firebase' })

/** Where the signing keys of all instances are kept; whoever implements it encrypts them. */
export interface SigningKeyStore {
  /** The stored keys; undefined before the first ones are made. */
  read(): Promise<string | undefined>
  /**
   * Stores what `work` makes of what is stored, or leaves it where that is the same text; of several instances one at a time.
   * Resolves with the stored text.
   */
  change(work: (stored: string | undefined) => Promise<string>): Promise<string>
}

/** A refresh token without the token: only a hash of it is kept. */
export interface RefreshRow {
  hash: Buffer
  uid: string
  claims: Record<string, string>
  lifetimeS: number
  authTime: Date
  expiresAt: Date
}

export interface RefreshStore {
  add(row: RefreshRow): Promise<void>
  /** Undefined for an absent or expired entry. */
  find(hash: Buffer): Promise<RefreshRow | undefined>
}

/** What a provider needs of the platform around it. Only the local driver uses its stores. */
export interface IdentityParts {
  log: Logger
  customTokenTtlS: number
  /** The name of the local issuer, asked when the first token is made. */
  issuer(): string
  /** Whether a token of that issuer is one of this platform. */
  isIssuer(name: string): boolean
  signingKeys: SigningKeyStore
  refreshTokens: RefreshStore
  /** False when this uid, or the key or session that the claims name, is no more: then it buys no ID token. */
  mayBuy(uid: string, claims: Record<string, unknown>): Promise<boolean>
  now?: () => number
}

/** A chosen driver; services open their provider with it. */
export interface IdentityEngine extends Closeable {
  readonly driver: 'local' | 'firebase'
  open(parts: IdentityParts): Promise<AnyIdentityProvider>
}
