/** Checks tokens of the local issuer: signature, issuer, audience and times, on every call; only the signature is remembered. */

import { hash } from 'node:crypto'
import { errors, type JWTPayload, jwtVerify } from 'jose'
import { AppError } from '#lib/errors.ts'
import { createLru } from '#lib/lru.ts'
import type { VerifiedToken } from '../port.ts'
import { algorithm, type KeyRing } from './key-ring.ts'

/** In `aud` of ID tokens: there is one project. */
export const audience = 'flotilla'
/** Clocks of instances may differ by this much: a token may come from the future by no more. */
export const skewMs = 5 * 60_000

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
export function createIdTokenVerifier(parts: IdTokenParts): (token: string) => Promise<VerifiedToken> {
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

export interface Verified {
  kid: string
  payload: JWTPayload
}

/** Checks everything but what only ID tokens have. Rejects as the verifier does. */
export async function verifySignature(
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
