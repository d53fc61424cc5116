/**
 * The local issuer: a whole identity provider whose keys and refresh tokens lie in the platform's database, so that any
 * number of instances are one issuer. It speaks as Identity Toolkit does.
 */

import { randomBytes } from 'node:crypto'
import { SignJWT } from 'jose'
import { AppError } from '#lib/errors.ts'
import { audience, createIdTokenVerifier, type Verified, verifySignature } from './local/id-tokens.ts'
import { algorithm, hashOf, openKeyRing } from './local/key-ring.ts'
import type { IdentityEngine, IdentityParts, LocalIssuer, RefreshRow, SignedIn } from './port.ts'

/** As in Google's custom tokens: what they are for. No ID token has it, so neither passes for the other. */
const customTokenAudience =
  'https://identitytoolkit.googleapis.com/google.identity.identitytoolkit.v1.IdentityToolkit'
const idTokenTtlS = 3_600
const idTokenTtlMaxS = 86_400
const refreshTtlMs = 7 * 86_400_000
const customTokenLengthMax = 8_192
const uidLengthMax = 128

export function openLocalIdentity(): IdentityEngine {
  return { driver: 'local', open: openLocalIssuer, async close() {} }
}

/** Throws what the stores throw. */
export async function openLocalIssuer(parts: IdentityParts): Promise<LocalIssuer> {
  const { customTokenTtlS, issuer, isIssuer, refreshTokens, mayBuy, now = Date.now } = parts
  const tokenTtlMaxMs = Math.max(idTokenTtlMaxS, customTokenTtlS) * 1_000
  const keys = await openKeyRing({ store: parts.signingKeys, tokenTtlMaxMs, now })
  const checks = { keys, isIssuer, now }

  async function sign(payload: Record<string, unknown>, ttlS: number): Promise<string> {
    const { kid, key } = await keys.signing()
    const iat = Math.floor(now() / 1_000)
    return new SignJWT({ ...payload, iss: issuer(), iat, exp: iat + ttlS })
      .setProtectedHeader({ alg: algorithm, kid, typ: 'JWT' })
      .sign(key)
  }

  async function idTokenOf({ uid, claims, authTime, lifetimeS }: Omit<RefreshRow, 'hash' | 'expiresAt'>) {
    return sign(
      {
        ...claims,
        aud: audience,
        sub: uid,
        user_id: uid,
        auth_time: Math.floor(authTime.getTime() / 1_000),
        firebase: { identities: {}, sign_in_provider: 'custom' },
      },
      lifetimeS,
    )
  }

  async function signIn(
    uid: string,
    claims: Record<string, string>,
    lifetimeS = idTokenTtlS,
  ): Promise<SignedIn> {
    const refreshToken = randomBytes(48).toString('base64url')
    const subject = { uid, claims, lifetimeS, authTime: new Date(now()) }
    const [idToken] = await Promise.all([
      idTokenOf(subject),
      refreshTokens.add({
        ...subject,
        hash: hashOf(refreshToken),
        expiresAt: new Date(now() + refreshTtlMs),
      }),
    ])
    return { uid, idToken, refreshToken, expiresInS: lifetimeS }
  }

  return {
    driver: 'local',
    projectId: audience,
    issuer,
    idToken: (uid, claims, lifetimeS) => idTokenOf({ uid, claims, lifetimeS, authTime: new Date(now()) }),
    signIn,
    async createCustomToken(uid, claims) {
      const payload = { uid, claims, sub: issuer(), aud: customTokenAudience }
      return { customToken: await sign(payload, customTokenTtlS), expiresInS: customTokenTtlS }
    },
    verifyIdToken: createIdTokenVerifier(checks),
    async exchange(customToken) {
      const { uid, claims } = await readCustomToken(customToken)
      if (!(await mayBuy(uid, claims))) throw refused('USER_DISABLED')
      return signIn(uid, claims)
    },
    async refresh(refreshToken) {
      const row = await refreshTokens.find(hashOf(refreshToken))
      if (!row) throw refused('INVALID_REFRESH_TOKEN')
      if (!(await mayBuy(row.uid, row.claims))) throw refused('USER_DISABLED')
      const { uid, lifetimeS } = row
      return { uid, idToken: await idTokenOf(row), refreshToken, expiresInS: lifetimeS }
    },
    jwks: () => ({ keys: keys.publicKeys() as Record<string, unknown>[] }),
    rotateKeys: () => keys.rotate(),
    async close() {},
  }

  async function readCustomToken(token: string) {
    if (token.length > customTokenLengthMax) throw badCustomToken('Token is too long')
    const { uid, claims = {} } = (await verifyCustomToken(token)).payload
    const isUid = typeof uid === 'string' && uid !== '' && uid.length <= uidLengthMax
    if (!isUid) throw badCustomToken('uid is missing or invalid')
    return { uid, claims: claims as Record<string, string> }
  }

  async function verifyCustomToken(token: string): Promise<Verified> {
    try {
      return await verifySignature(token, { ...checks, audience: customTokenAudience })
    } catch (error) {
      if (!(error instanceof AppError) || error.statusCode !== 401) throw error
      throw badCustomToken(error.code === 'token_expired' ? 'Token has expired' : 'Token is not valid')
    }
  }
}

/** Identity Toolkit's own strings: clients take them apart at ` : `. */
function refused(message: string): AppError {
  return new AppError('identity_refused', message)
}

function badCustomToken(detail: string): AppError {
  return refused(`INVALID_CUSTOM_TOKEN : ${detail}`)
}
