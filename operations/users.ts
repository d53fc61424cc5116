/** The people who may use the main API and the console: added, listed, given another role, and removed. */

import { Type } from 'typebox'
import { loadConfig } from '#lib/config.ts'
import { AppError } from '#lib/errors.ts'
import { type Access, accessLevels } from '#services/access/agents/agents.ts'
import { createPasswords, newOneTimePassword } from '#services/access/people/passwords.ts'
import {
  addPerson,
  checkNewPerson,
  listPeople,
  removePerson,
  setRole,
} from '#services/access/people/people.ts'
import type { ProviderAccount } from '#services/access/people/provider-accounts.ts'
import type { Person } from '#services/access/people/rows.ts'
import { peopleSettings, providerOf } from '#services/access/people/settings.ts'
import { agentServices, published } from './agents/agent.ts'
import { defineChange } from './change.ts'
import { defineOperation } from './operation.ts'

const services = agentServices
/** One for the process: each password takes 128 MiB while it is hashed. */
const passwords = createPasswords()

export interface UserView {
  uid: string
  email: string
  name: string
  role: Access
  /** How the person may sign in. */
  signs_in_with: ('password' | 'provider')[]
  must_change_password: boolean
  oidc_subject: string | null
  created_at: string
  signed_in_at: string | null
}

/** Shown once; null where the person signs in at a provider. */
export type AddedUser = UserView & { one_time_password: string | null }

export const addUserOperation = defineChange({
  name: 'users add',
  action: 'person.add',
  needs: [],
  services,
  args: Type.Object({
    email: Type.String(),
    name: Type.Optional(Type.String()),
    role: Type.Optional(Type.Enum(accessLevels)),
    /** Who the person is at the OpenID Connect provider, or at Firebase. */
    oidcSubject: Type.Optional(Type.String()),
  }),
  targetOf: ({ email }) => email,
  async run({ platform, note }, { oidcSubject, ...input }): Promise<AddedUser> {
    const provider = providerOf(loadConfig(peopleSettings, platform.env))
    const account = oidcSubject === undefined ? undefined : accountAt(provider?.issuer, oidcSubject)
    const given = { ...input, ...(account ? { account } : {}) }
    // A password costs a good part of a second.
    checkNewPerson(given)
    // Firebase keeps the passwords of its people; who is named by a subject signs in there.
    const password = account || provider?.kind === 'firebase' ? null : newOneTimePassword()
    const { person } = await published(
      platform,
      addPerson(
        platform.engines.relational,
        {
          ...given,
          ...(password === null ? {} : { password: await passwords.hash(password, 'users add') }),
        },
        note,
      ),
    )
    return { ...viewOf(person), one_time_password: password }
  },
})

export const listUsersOperation = defineOperation({
  name: 'users list',
  needs: [],
  args: Type.Object({}),
  async run({ platform }): Promise<{ users: UserView[] }> {
    return { users: (await listPeople(platform.engines.relational)).map(viewOf) }
  },
})

export const setUserRoleOperation = defineChange({
  name: 'users role',
  action: 'person.role',
  needs: [],
  services,
  args: Type.Object({ user: Type.String(), role: Type.Enum(accessLevels) }),
  targetOf: ({ user }) => user,
  async run({ platform, note }, { user, role }): Promise<UserView> {
    const { person } = await published(platform, setRole(platform.engines.relational, user, role, note))
    return viewOf(person)
  },
})

export const removeUserOperation = defineChange({
  name: 'users remove',
  action: 'person.remove',
  needs: [],
  services,
  args: Type.Object({ user: Type.String() }),
  targetOf: ({ user }) => user,
  async run({ platform, note }, { user }): Promise<UserView & { removed: true }> {
    const { person } = await published(platform, removePerson(platform.engines.relational, user, note))
    return { ...viewOf(person), removed: true }
  },
})

/** What every operation shows of a person. */
function viewOf(person: Person): UserView {
  const { uid, email, name, role, must_change_password, oidc_subject, created_at, signed_in_at } = person
  return {
    uid,
    email,
    name,
    role,
    signs_in_with: [
      ...(person.has_password ? (['password'] as const) : []),
      ...(oidc_subject === null ? [] : (['provider'] as const)),
    ],
    must_change_password,
    oidc_subject,
    created_at: created_at.toISOString(),
    signed_in_at: signed_in_at?.toISOString() ?? null,
  }
}

function accountAt(issuer: string | undefined, subject: string): ProviderAccount {
  if (issuer !== undefined) return { issuer, subject }
  throw new AppError(
    'validation_failed',
    'A subject belongs to a provider: set OIDC_ISSUER (or FIREBASE_PROJECT_ID) where the platform runs.',
    { errors: [{ path: '/oidc_subject', message: 'there is no provider' }] },
  )
}
