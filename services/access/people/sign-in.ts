/**
 * Signs people in with e-mail and password: limits first, then the check, at the platform itself or at Firebase, and a line in the
 * audit for refusals.
 */

import type { AnyIdentityProvider } from '#engines/identity/port.ts'
import type { Relational } from '#engines/relational/port.ts'
import { deadlines } from '#lib/deadlines.ts'
import { AppError } from '#lib/errors.ts'
import type { Passwords } from './passwords.ts'
import { personOfAccount, readPasswordOf } from './people.ts'
import type { RefusedSignIns } from './refused-sign-ins.ts'
import type { Person } from './rows.ts'
import type { AdmittedTry, SignInLimits } from './sign-in-limits.ts'

export interface SignInTry {
  email: string
  password: string
  address: string
  requestId: string
  /** Id of a browser that signed in to this account before. */
  browser?: string | undefined
}

/** A try that was admitted. */
interface CheckedTry extends SignInTry {
  /** Whose turn checking the password takes. */
  turn: string
}

export interface SignedIn {
  person: Person
  /** The refresh token of the provider that checked the password. */
  providerToken?: string
}

/** `uid` of who was meant, if anybody; the same answer for all of them. */
type Checked = SignedIn | { refused: AppError; uid: string | null }

interface PasswordSignInParts {
  limits: SignInLimits
  refusals: RefusedSignIns
  /** Looks whether e-mail and password belong together. */
  check(given: CheckedTry): Promise<Checked>
}

export type PasswordSignIn = ReturnType<typeof createPasswordSignIn>

export function createPasswordSignIn({ limits, refusals, check }: PasswordSignInParts) {
  /**
   * Throws AppError `unauthorized` (the same for a wrong password and an unknown e-mail, after the same time), `forbidden`,
   * `rate_limited`, `overloaded`, `identity_unavailable`, or `relational_engine_unavailable`.
   */
  return async function signIn(given: SignInTry): Promise<SignedIn> {
    const { address, requestId } = given
    let admitted: AdmittedTry
    try {
      admitted = limits.admit(given.email, address, given.browser)
    } catch (error) {
      if (error instanceof AppError) refusals.note({ uid: null, address, requestId, reason: error.code })
      throw error
    }
    let checked: Checked
    try {
      checked = await check({ ...given, turn: admitted.turn })
    } catch (error) {
      admitted.takeBack()
      throw error
    }
    if ('refused' in checked) {
      refusals.note({ uid: checked.uid, address, requestId, reason: checked.refused.code })
      throw checked.refused
    }
    admitted.right()
    return checked
  }
}

/** Checks passwords that the platform itself keeps. */
export function checkOwnPassword(
  relational: Relational,
  passwords: Passwords,
): (given: CheckedTry) => Promise<Checked> {
  return async ({ email, password, turn }) => {
    const account = await readPasswordOf(relational, email)
    const stored = account?.password ?? null
    const { matches, upgraded } = await passwords.verify(password, stored, turn)
    if (!account || !matches) return { refused: wrongPassword(), uid: account?.person.uid ?? null }
    if (upgraded !== undefined && stored !== null) {
      // A hash of today's cost for the same password: nothing that others need to know.
      const keep = 'update platform.people set password = $3 where uid = $1 and password = $2'
      await relational.query(keep, [account.person.uid, stored, upgraded])
    }
    return { person: account.person }
  }
}

function wrongPassword(): AppError {
  return new AppError('unauthorized', 'Wrong e-mail or password.')
}

export interface BoughtToken {
  idToken: string
  expiresInS: number
}

interface FirebasePeopleParts {
  webApiKey: string
  /** `host:port` of the Auth emulator. */
  emulatorHost: string | null
  relational: Relational
  identity: AnyIdentityProvider
  /** As `providerOf` names it. */
  issuer: string
}

const toolkitHost = 'identitytoolkit.googleapis.com'
const tokenHost = 'securetoken.googleapis.com'
const answerBytesMax = 64 * 1024

/** Firebase's strings for an account that is not let in with this password. */
const refusals: ReadonlySet<string> = new Set([
  'INVALID_LOGIN_CREDENTIALS',
  'EMAIL_NOT_FOUND',
  'INVALID_PASSWORD',
  'INVALID_EMAIL',
  'MISSING_PASSWORD',
  'USER_DISABLED',
])

/** Its strings for a refresh token that buys nothing any more. */
const ended: ReadonlySet<string> = new Set([
  'TOKEN_EXPIRED',
  'USER_DISABLED',
  'USER_NOT_FOUND',
  'INVALID_REFRESH_TOKEN',
])

export type FirebasePeople = ReturnType<typeof createFirebasePeople>

/**
 * People of a Firebase project: this server signs them in at Google's REST addresses, so that a browser needs no other
 * host, and asks there on every purchase of an ID token whether the account is still in force.
 */
export function createFirebasePeople(parts: FirebasePeopleParts) {
  const { relational, identity, issuer } = parts
  return {
    /** Looks whether e-mail and password belong together, and who that is here. */
    async check({ email, password, requestId }: SignInTry): Promise<Checked> {
      const answer = await ask(parts, toolkitHost, 'accounts:signInWithPassword', {
        email,
        password,
        returnSecureToken: true,
      })
      if (answer.fault !== null) return { refused: refusalOf(answer.fault), uid: null }
      const { uid, claims } = await identity.verifyIdToken(textOf(answer.body, 'idToken'))
      // Whoever has the public key can make an account with any e-mail: only a verified one says who it is.
      const verified = claims.email_verified === true && typeof claims.email === 'string'
      try {
        const email = verified ? (claims.email as string) : null
        const person = await personOfAccount(relational, { issuer, subject: uid }, email, requestId)
        return { person, providerToken: textOf(answer.body, 'refreshToken') }
      } catch (error) {
        if (error instanceof AppError && error.code === 'forbidden') return { refused: error, uid: null }
        throw error
      }
    },
    /** Throws AppError `unauthorized` when the account was disabled or its sessions ended there. */
    async confirm(refreshToken: string): Promise<void> {
      const given = { grant_type: 'refresh_token', refresh_token: refreshToken }
      const { fault } = await ask(parts, tokenHost, 'token', given)
      if (fault === null) return
      if (!ended.has(fault)) throw away(new Error(fault))
      throw new AppError('unauthorized', 'The account was disabled or signed out: sign in again.')
    },
    /** Trades a custom token. */
    async exchange(customToken: string): Promise<BoughtToken> {
      const given = { token: customToken, returnSecureToken: true }
      const { fault, body } = await ask(parts, toolkitHost, 'accounts:signInWithCustomToken', given)
      if (fault !== null) throw away(new Error(fault))
      return { idToken: textOf(body, 'idToken'), expiresInS: Number(textOf(body, 'expiresIn')) }
    },
  }
}

interface ProviderAnswer {
  /** The first word of Firebase's error string; null on success. */
  fault: string | null
  body: Record<string, unknown>
}

/** Throws AppError `identity_unavailable` for every answer that says nothing about the account. */
async function ask(
  { webApiKey, emulatorHost }: FirebasePeopleParts,
  host: string,
  call: string,
  given: object,
): Promise<ProviderAnswer> {
  const origin = emulatorHost === null ? `https://${host}` : `http://${emulatorHost}/${host}`
  let status: number
  let body: Record<string, unknown>
  try {
    const response = await fetch(`${origin}/v1/${call}?key=${encodeURIComponent(webApiKey)}`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(given),
      redirect: 'error',
      signal: AbortSignal.timeout(deadlines.request.identityMs),
    })
    status = response.status
    const text = await response.text()
    if (text.length > answerBytesMax) throw new Error('the answer is too long')
    body = JSON.parse(text) as Record<string, unknown>
  } catch (error) {
    throw away(error)
  }
  if (status === 200) return { fault: null, body }
  const message = (body.error as { message?: unknown } | undefined)?.message
  const fault = typeof message === 'string' ? (message.split(/[ :]/)[0] ?? '') : ''
  if (status !== 400 || fault === '') throw away(new Error(`status ${status} ${fault}`))
  return { fault, body }
}

function refusalOf(fault: string): AppError {
  if (refusals.has(fault)) return wrongPassword()
  if (fault === 'TOO_MANY_ATTEMPTS_TRY_LATER') {
    return new AppError('rate_limited', 'Firebase takes no more sign-ins of this account for now.', {
      retryAfter: 60,
    })
  }
  // The key, the project or its settings are at fault, not the person.
  throw away(new Error(fault))
}

function textOf(body: Record<string, unknown>, name: string): string {
  const value = body[name]
  if (typeof value === 'string' && value !== '') return value
  throw away(new Error(`no ${name}`))
}

function away(cause: unknown): AppError {
  return new AppError('identity_unavailable', 'The identity provider does not answer.', { cause })
}
