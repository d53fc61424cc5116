/**
 * The local issuer: a whole identity provider whose keys and refresh tokens lie in the platform's database, so that any number of
 * instances are one issuer. It speaks as Identity Toolkit does. Tokens are checked on every call (issuer, audience and times);
 * only their signature is remembered.
 */

import { hash, randomBytes } from 'node:crypto'
import { errors, type JWTPayload, jwtVerify, SignJWT } from 'jose'
import { AppError } from '#lib/errors.ts'
import { createLru } from '#lib/lru.ts'
import { algorithm, hashOf, type KeyRing, openKeyRing } from './key-ring.ts'
import type {
  IdentityEngine,
  IdentityParts,
  LocalIssuer,
  RefreshRow,
  SignedIn,
  VerifiedToken,
} from './port.ts'

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

/** In `aud` of ID tokens: there is one project. */
const audience = 'flotilla'
/** Clocks of instances may differ by this much: a token may come from the future by no more. */
const skewMs = 5 * 60_000

const tokenLengthMax = 8_192
const rememberedMax = 10_000

interface Remembered {
  kid: string
  token: VerifiedToken
}

interface IdTokenParts {
  keys: KeyRing
  isIssuer(name: string): boolean
  now(): number
}

/** Rejects with AppError `unauthorized` or `token_expired`, or with what reading the keys rejects with. */
function createIdTokenVerifier(parts: IdTokenParts): (token: string) => Promise<VerifiedToken> {
  const { keys, now } = parts
  const remembered = createLru<string, Remembered>(rememberedMax)
  return async (token) => {
    if (token.length > tokenLengthMax) throw refusedToken()
    const digest = hash('sha256', token, 'base64')
    const known = remembered.get(digest)
    if (known) {
      if (known.token.expiresAt <= now()) {
        remembered.delete(digest)
        throw expiredToken()
      }
      // A key that no longer counts is asked for again below, and refused there.
      if (keys.holds(known.kid)) return known.token
    }
    const { kid, payload } = await verifySignature(token, { ...parts, audience })
    const verified = tokenOf(payload, now())
    remembered.set(digest, { kid, token: verified })
    return verified
  }
}

interface Verified {
  kid: string
  payload: JWTPayload
}

/** Checks everything but what only ID tokens have. Rejects as the verifier does. */
async function verifySignature(
  token: string,
  { keys, isIssuer, now, audience }: IdTokenParts & { audience: string },
): Promise<Verified> {
  try {
    const { payload, protectedHeader } = await jwtVerify(
      token,
      async ({ kid }) => {
        const key = kid === undefined ? undefined : await keys.verifying(kid)
        if (!key) throw new errors.JWKSNoMatchingKey()
        return key
      },
      {
        algorithms: [algorithm],
        audience,
        currentDate: new Date(now()),
        requiredClaims: ['iat', 'exp', 'iss', 'sub'],
      },
    )
    if (!isIssuer(payload.iss!)) throw refusedToken()
    // A token that counts only later is as wrong as one that counts no more.
    if (payload.iat! * 1_000 > now() + skewMs) throw refusedToken()
    return { kid: protectedHeader.kid!, payload }
  } catch (error) {
    if (error instanceof errors.JWTExpired) throw expiredToken(error)
    if (error instanceof errors.JOSEError) throw refusedToken(error)
    throw error
  }
}

function tokenOf(payload: JWTPayload, nowMs: number): VerifiedToken {
  const { sub, iat, exp, auth_time } = payload
  const authTime = typeof auth_time === 'number' ? auth_time * 1_000 : Number.NaN
  if (!sub || !(authTime <= nowMs + skewMs)) throw refusedToken()
  return { uid: sub, issuedAt: iat! * 1_000, expiresAt: exp! * 1_000, authTime, claims: payload }
}

function refusedToken(cause?: unknown): AppError {
  return new AppError('unauthorized', 'Send a valid ID token: Authorization: Bearer …', { cause })
}

function expiredToken(cause?: unknown): AppError {
  return new AppError('token_expired', 'The ID token has expired: get a new one.', { cause })
}
