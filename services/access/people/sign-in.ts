/** Signs people in with e-mail and password: limits first, then the check, and a line in the audit for refusals. */

import type { Relational } from '#engines/relational/port.ts'
import { AppError } from '#lib/errors.ts'
import type { Passwords } from './passwords.ts'
import { keepUpgradedHash, readPasswordOf } from './people.ts'
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
export type Checked = SignedIn | { refused: AppError; uid: string | null }

/**
 * Throws AppError `unauthorized` (the same for a wrong password and an unknown e-mail, after the same time), `forbidden`,
 * `rate_limited`, `overloaded`, `identity_unavailable`, or `relational_engine_unavailable`.
 */
export type PasswordSignIn = (given: SignInTry) => Promise<SignedIn>

export interface PasswordSignInParts {
  limits: SignInLimits
  refusals: RefusedSignIns
  /** Looks whether e-mail and password belong together. */
  check(given: CheckedTry): Promise<Checked>
}

export function createPasswordSignIn({ limits, refusals, check }: PasswordSignInParts): PasswordSignIn {
  return async function signIn(given) {
    const { address, requestId } = given
    const admitted = admit(limits, given, (error) =>
      refusals.note({ uid: null, address, requestId, reason: error.code }),
    )
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

function admit(limits: SignInLimits, given: SignInTry, refused: (error: AppError) => void): AdmittedTry {
  try {
    return limits.admit(given.email, given.address, given.browser)
  } catch (error) {
    if (error instanceof AppError) refused(error)
    throw error
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
      await keepUpgradedHash(relational, account.person.uid, { before: stored, after: upgraded })
    }
    return { person: account.person }
  }
}

export function wrongPassword(): AppError {
  return new AppError('unauthorized', 'E-mail and password do not belong together.')
}
