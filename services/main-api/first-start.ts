/** Begins what a first start of the main API waits for longest, before there is a database to ask whether it is one. */

import { type Environment, loadConfig } from '#lib/config.ts'
import { type OneTimePassword, prepareFirstPassword } from '#services/access/people/first-admin.ts'
import { createPasswords } from '#services/access/people/passwords.ts'
import { peopleSettings, providerOf } from '#services/access/people/settings.ts'
import { keysAtHand } from '#services/access/secrets/secrets.ts'

/** The first admin's password, where nothing was ever encrypted here: then there is hardly an admin either. */
export function beginFirstPassword(env: Environment): Promise<OneTimePassword> | undefined {
  const passwordsAreOurs = providerOf(loadConfig(peopleSettings, env))?.kind !== 'firebase'
  if (!passwordsAreOurs || keysAtHand(env) !== null) return undefined
  const prepared = prepareFirstPassword(createPasswords())
  // Its fault is thrown where it is needed.
  prepared.catch(() => {})
  return prepared
}
