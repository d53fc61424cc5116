/** Firebase as identity provider, by its admin library. Credentials and the emulator are found by Google's usual variables. */

import { type App, applicationDefault, deleteApp, initializeApp } from 'firebase-admin/app'
import { type Auth, getAuth } from 'firebase-admin/auth'
import { withTimeout } from '#lib/backoff.ts'
import { deadlines } from '#lib/deadlines.ts'
import { AppError } from '#lib/errors.ts'
import type { IdentityEngine, IdentityParts, IdentityProvider, VerifiedToken } from './port.ts'

/** Google's: the admin library knows no other lifetime. */
const customTokenTtlS = 3_600

interface FirebaseOptions {
  projectId: string
  /** True: no credentials are needed, and signatures are not checked. */
  emulated: boolean
}

let apps = 0

export function openFirebaseIdentity(options: FirebaseOptions): IdentityEngine {
  return { driver: 'firebase', open: (parts) => openFirebase(options, parts), async close() {} }
}

/** Throws AppError `invalid_configuration` for a lifetime of custom tokens that Google does not give. */
async function openFirebase(
  { projectId, emulated }: FirebaseOptions,
  parts: IdentityParts,
): Promise<IdentityProvider & { readonly driver: 'firebase' }> {
  if (parts.customTokenTtlS !== customTokenTtlS) {
    throw new AppError(
      'invalid_configuration',
      `CUSTOM_TOKEN_TTL_S must be ${customTokenTtlS} with FIREBASE_PROJECT_ID: Firebase knows no other.`,
    )
  }
  apps += 1
  const app: App = initializeApp(
    emulated ? { projectId } : { projectId, credential: applicationDefault() },
    // Several platforms may run in one process.
    `flotilla-${apps}`,
  )
  const auth = getAuth(app)
  let closed: Promise<void> | undefined
  return {
    driver: 'firebase',
    async createCustomToken(uid, claims) {
      const customToken = await called(() => auth.createCustomToken(uid, claims))
      return { customToken, expiresInS: customTokenTtlS }
    },
    verifyIdToken: (token) => verify(auth, token),
    close() {
      closed ??= deleteApp(app)
      return closed
    },
  }
}

async function verify(auth: Auth, token: string): Promise<VerifiedToken> {
  const claims = await called(() => auth.verifyIdToken(token))
  return {
    uid: claims.uid,
    issuedAt: claims.iat * 1_000,
    expiresAt: claims.exp * 1_000,
    authTime: claims.auth_time * 1_000,
    claims,
  }
}

/** The library's own limit is longer than any request waits. */
async function called<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await withTimeout(work(), deadlines.request.identityMs, () => away())
  } catch (error) {
    throw translated(error)
  }
}

const refusedCodes = new Set([
  'auth/argument-error',
  'auth/invalid-id-token',
  'auth/id-token-revoked',
  'auth/user-disabled',
  'auth/user-not-found',
])

/** Everything that is no fault of the token counts as away: credentials that do not work, and Google's own faults. */
function translated(error: unknown): AppError {
  if (error instanceof AppError) return error
  const { code = '', message = '' } = (error ?? {}) as { code?: string; message?: string }
  if (code === 'auth/id-token-expired') {
    return new AppError('token_expired', 'The ID token has expired: get a new one.', { cause: error })
  }
  // The library gives a token's fault and a failed fetch of Google's keys one code.
  if (refusedCodes.has(code) && !/fetching public keys|while making request/i.test(message)) {
    return new AppError('unauthorized', 'Send a valid ID token: Authorization: Bearer …', { cause: error })
  }
  return away(error)
}

function away(cause?: unknown): AppError {
  return new AppError('identity_unavailable', 'The identity provider does not answer.', { cause })
}
