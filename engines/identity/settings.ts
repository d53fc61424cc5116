/** The environment variables that choose and reach the identity provider. */

import { type Static, Type } from 'typebox'
import { optionalText } from '#lib/config.ts'
import { AppError } from '#lib/errors.ts'

export const identitySettings = Type.Object({
  FIREBASE_PROJECT_ID: optionalText(
    'Firebase project that signs agents and people in, with credentials by Google’s usual variables (`GOOGLE_APPLICATION_CREDENTIALS`); without it the local issuer does',
  ),
  FIREBASE_AUTH_EMULATOR_HOST: optionalText(
    '`host:port` of the Firebase Auth emulator, which accepts unsigned tokens: for tests, refused where NODE_ENV is `production`',
  ),
  NODE_ENV: optionalText('`production` refuses what is for tests alone'),
})

type IdentitySettings = Static<typeof identitySettings>

const exchangePath = 'identitytoolkit.googleapis.com/v1/accounts:signInWithCustomToken'

/** Throws AppError `invalid_configuration`. */
export function checkIdentitySettings(settings: IdentitySettings): void {
  const { FIREBASE_PROJECT_ID, FIREBASE_AUTH_EMULATOR_HOST, NODE_ENV } = settings
  if (!FIREBASE_AUTH_EMULATOR_HOST) return
  if (NODE_ENV === 'production') {
    throw fault('must not be set where NODE_ENV is production: the emulator accepts unsigned tokens')
  }
  if (!FIREBASE_PROJECT_ID) throw fault('belongs to FIREBASE_PROJECT_ID, which is not set')
}

function fault(message: string): AppError {
  const path = 'FIREBASE_AUTH_EMULATOR_HOST'
  return new AppError('invalid_configuration', `${path} ${message}.`, { errors: [{ path, message }] })
}

/** Where custom tokens are traded for ID tokens; `localUrl` is the address of the main API, whose local issuer does so. */
export function identityExchangeUrl(settings: IdentitySettings, localUrl: string): string {
  const { FIREBASE_PROJECT_ID, FIREBASE_AUTH_EMULATOR_HOST } = settings
  if (!FIREBASE_PROJECT_ID) return `${localUrl}/${exchangePath}`
  return FIREBASE_AUTH_EMULATOR_HOST
    ? `http://${FIREBASE_AUTH_EMULATOR_HOST}/${exchangePath}`
    : `https://${exchangePath}`
}
