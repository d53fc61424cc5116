/** Where people sign in: at the platform itself, at an OpenID Connect provider as well, or at Firebase. */

import { type Static, Type } from 'typebox'
import { identitySettings } from '#engines/identity/settings.ts'
import { type Environment, loadConfig, optionalText, optionalUrl } from '#lib/config.ts'
import { AppError } from '#lib/errors.ts'
import { isLoopbackHost } from '#lib/hosts.ts'

export const peopleSettings = Type.Object({
  OIDC_ISSUER: optionalUrl(
    'URL of an OpenID Connect provider where people may sign in; https, or on this machine; not together with FIREBASE_PROJECT_ID',
  ),
  OIDC_CLIENT_ID: optionalText('client id of the platform at OIDC_ISSUER'),
  OIDC_CLIENT_SECRET: optionalText('client secret there; without it the platform is a public client'),
  FIREBASE_PROJECT_ID: identitySettings.properties.FIREBASE_PROJECT_ID,
  FIREBASE_WEB_API_KEY: optionalText(
    "public web API key of the Firebase project: with it people sign in with the project's e-mail and password",
  ),
})

type PeopleSettings = Static<typeof peopleSettings>

export type Provider =
  | { kind: 'oidc'; issuer: string; clientId: string; clientSecret: string | null }
  | { kind: 'firebase'; issuer: string; webApiKey: string | null }

/** The provider that the settings name; null where people have only the platform's own passwords. */
export function providerOf(settings: PeopleSettings): Provider | null {
  const { OIDC_ISSUER, OIDC_CLIENT_ID, FIREBASE_PROJECT_ID } = settings
  if (FIREBASE_PROJECT_ID !== undefined) {
    const issuer = `https://securetoken.google.com/${FIREBASE_PROJECT_ID}`
    return { kind: 'firebase', issuer, webApiKey: settings.FIREBASE_WEB_API_KEY ?? null }
  }
  if (OIDC_ISSUER === undefined) return null
  return {
    kind: 'oidc',
    // With or without a slash at its end it is the same provider.
    issuer: new URL(OIDC_ISSUER).href,
    clientId: OIDC_CLIENT_ID ?? '',
    clientSecret: settings.OIDC_CLIENT_SECRET ?? null,
  }
}

/** Throws one AppError `invalid_configuration` for settings that do not fit each other. */
export function checkPeopleSettings(env: Environment): void {
  const settings = loadConfig(peopleSettings, env)
  const { OIDC_ISSUER, OIDC_CLIENT_ID, OIDC_CLIENT_SECRET, FIREBASE_PROJECT_ID } = settings
  const faults: { path: string; message: string }[] = []
  if (OIDC_ISSUER === undefined) {
    if (OIDC_CLIENT_ID !== undefined || OIDC_CLIENT_SECRET !== undefined) {
      faults.push({
        path: 'OIDC_ISSUER',
        message: 'must be set where OIDC_CLIENT_ID or OIDC_CLIENT_SECRET is',
      })
    }
  } else {
    if (FIREBASE_PROJECT_ID !== undefined) {
      faults.push({
        path: 'OIDC_ISSUER',
        message: 'cannot be used together with FIREBASE_PROJECT_ID: people sign in at one provider',
      })
    }
    if (OIDC_CLIENT_ID === undefined) faults.push({ path: 'OIDC_CLIENT_ID', message: 'must be set' })
    const { protocol, hostname } = new URL(OIDC_ISSUER)
    if (protocol !== 'https:' && !(protocol === 'http:' && isLoopbackHost(hostname))) {
      faults.push({ path: 'OIDC_ISSUER', message: 'must be https, or a provider on this machine' })
    }
  }
  if (faults.length === 0) return
  const lines = faults.map(({ path, message }) => `${path} ${message}`)
  throw new AppError('invalid_configuration', `Correct these environment variables: ${lines.join('; ')}.`, {
    errors: faults,
  })
}
