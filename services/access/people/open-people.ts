/** What an interface needs to sign people in, opened and closed together. */

import type { Logger } from 'pino'
import type { AnyIdentityProvider } from '#engines/identity/port.ts'
import { identitySettings } from '#engines/identity/settings.ts'
import type { Relational } from '#engines/relational/port.ts'
import { type Environment, loadConfig } from '#lib/config.ts'
import { openTogether } from '#lib/resource.ts'
import { homeOf } from '#runtime/start/settings.ts'
import { createOidc, createStartCookies } from '../oidc/oidc.ts'
import { openSecrets, sealingKey } from '../secrets/secrets.ts'
import { createProviderTokens, openSessions } from '../sessions/sessions.ts'
import { type OneTimePassword, openFirstAdmin, prepareFirstPassword } from './first-admin.ts'
import { createPasswords } from './passwords.ts'
import { openRefusedSignIns } from './refused-sign-ins.ts'
import { type Provider, peopleSettings, providerOf } from './settings.ts'
import {
  checkOwnPassword,
  createFirebasePeople,
  createPasswordSignIn,
  type FirebasePeople,
} from './sign-in.ts'
import { createKnownBrowsers, createSignInLimits } from './sign-in-limits.ts'

export type People = Awaited<ReturnType<typeof openPeople>>

interface PeopleParts {
  relational: Relational
  identity: AnyIdentityProvider
  env: Environment
  log: Logger
  /** Where it was begun before it was known whether there is an admin. */
  firstPassword?: Promise<OneTimePassword> | undefined
}

/** Makes the first admin where there is none. Throws AppError `invalid_configuration`, `relational_engine_unavailable`. */
export function openPeople(parts: PeopleParts) {
  const { relational, env, log } = parts
  return openTogether(log, async (scope) => {
    const provider = providerOf(loadConfig(peopleSettings, env))
    const secrets = await openSecrets(relational, env, log)
    const passwords = createPasswords()
    const limits = createSignInLimits()
    const refusals = scope.add('refused sign-ins', openRefusedSignIns({ relational, log }))
    const firebase = firebaseOf(parts, provider)
    const check = provider?.kind === 'firebase' ? firebase?.check : checkOwnPassword(relational, passwords)
    const firstAdmin =
      provider?.kind === 'firebase'
        ? null
        : scope.add(
            'first admin',
            await openFirstAdmin({
              relational,
              home: homeOf(env),
              prepare: () => parts.firstPassword ?? prepareFirstPassword(passwords),
              log,
            }),
          )
    return {
      passwords,
      limits,
      browsers: createKnownBrowsers(await sealingKey(secrets, 'known-browser')),
      refusals,
      /** Null where people sign in at Firebase and its web API key is not set. */
      signIn: check ? createPasswordSignIn({ limits, refusals, check }) : null,
      sessions: scope.add('sessions', openSessions({ relational, log })),
      providerTokens: createProviderTokens(await sealingKey(secrets, 'provider-tokens')),
      /** Null where the settings name no such provider. */
      oidc:
        provider?.kind === 'oidc'
          ? {
              provider: createOidc(provider, log),
              cookies: createStartCookies(await sealingKey(secrets, 'oidc-start')),
            }
          : null,
      firebase,
      /** Null under Firebase, which keeps the passwords. */
      firstAdmin,
    }
  })
}

function firebaseOf(
  { relational, identity, env }: PeopleParts,
  provider: Provider | null,
): FirebasePeople | null {
  if (provider?.kind !== 'firebase' || provider.webApiKey === null) return null
  const { FIREBASE_AUTH_EMULATOR_HOST } = loadConfig(identitySettings, env)
  return createFirebasePeople({
    relational,
    identity,
    issuer: provider.issuer,
    webApiKey: provider.webApiKey,
    emulatorHost: FIREBASE_AUTH_EMULATOR_HOST ?? null,
  })
}
