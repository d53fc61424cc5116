/** What an interface needs to sign people in, opened and closed together. */

import type { Logger } from 'pino'
import type { AnyIdentityProvider } from '#engines/identity/port.ts'
import { identitySettings } from '#engines/identity/settings.ts'
import type { Relational } from '#engines/relational/port.ts'
import { type Environment, loadConfig } from '#lib/config.ts'
import { describeError } from '#lib/errors.ts'
import { type Closeable, createScope } from '#lib/resource.ts'
import { homeOf } from '#runtime/start/settings.ts'
import { createOidc, type Oidc } from '../oidc/oidc.ts'
import { openStartCookies, type StartCookies } from '../oidc/start-cookie.ts'
import { openSecrets } from '../secrets/secrets.ts'
import { openProviderTokens, type ProviderTokens } from '../sessions/id-tokens.ts'
import { openSessions, type Sessions } from '../sessions/sessions.ts'
import { createFirebasePeople, type FirebasePeople } from './firebase.ts'
import { type FirstAdmin, type OneTimePassword, openFirstAdmin, prepareFirstPassword } from './first-admin.ts'
import { type KnownBrowsers, openKnownBrowsers } from './known-browsers.ts'
import { createPasswords, type Passwords } from './passwords.ts'
import { openRefusedSignIns, type RefusedSignIns } from './refused-sign-ins.ts'
import { type Provider, peopleSettings, providerOf } from './settings.ts'
import { checkOwnPassword, createPasswordSignIn, type PasswordSignIn } from './sign-in.ts'
import { createSignInLimits, type SignInLimits } from './sign-in-limits.ts'

export interface People extends Closeable {
  passwords: Passwords
  limits: SignInLimits
  browsers: KnownBrowsers
  refusals: RefusedSignIns
  /** Null where people sign in at Firebase and its web API key is not set. */
  signIn: PasswordSignIn | null
  sessions: Sessions
  providerTokens: ProviderTokens
  /** The provider of the settings; its OpenID Connect side where it has one. */
  oidc: { provider: Oidc; cookies: StartCookies } | null
  firebase: FirebasePeople | null
  /** Null under Firebase, which keeps the passwords. */
  firstAdmin: FirstAdmin | null
}

interface PeopleParts {
  relational: Relational
  identity: AnyIdentityProvider
  env: Environment
  log: Logger
  /** Where it was begun before it was known whether there is an admin. */
  firstPassword?: Promise<OneTimePassword> | undefined
}

/** Makes the first admin where there is none. Throws AppError `invalid_configuration`, `relational_engine_unavailable`. */
export async function openPeople(parts: PeopleParts): Promise<People> {
  const { relational, env, log } = parts
  const scope = createScope((part, error) =>
    log.error({ part, reason: describeError(error) }, 'service.close-failed'),
  )
  try {
    const provider = providerOf(loadConfig(peopleSettings, env))
    const secrets = await openSecrets(relational, env, log)
    const passwords = createPasswords()
    const limits = createSignInLimits()
    const refusals = scope.add('refused sign-ins', openRefusedSignIns({ relational, log }))
    const firebase = firebaseOf(parts, provider)
    const check = provider?.kind === 'firebase' ? firebase?.check : checkOwnPassword(relational, passwords)
    const oidc =
      provider?.kind === 'oidc'
        ? { provider: createOidc(provider, log), cookies: await openStartCookies(secrets) }
        : null
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
              print: terminal(),
            }),
          )
    return {
      passwords,
      limits,
      browsers: await openKnownBrowsers(secrets),
      refusals,
      signIn: check ? createPasswordSignIn({ limits, refusals, check }) : null,
      sessions: scope.add('sessions', openSessions({ relational, log })),
      providerTokens: await openProviderTokens(secrets),
      oidc,
      firebase,
      firstAdmin,
      close: () => scope.close(),
    }
  } catch (error) {
    await scope.close()
    throw error
  }
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

/** A log may be kept for long and read by many: a password is for somebody who is looking now. */
function terminal(): ((text: string) => void) | null {
  return process.stderr.isTTY ? (text) => void process.stderr.write(text) : null
}
