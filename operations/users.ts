/** The people who may use the main API and the console: added, listed, given another role, and removed. */

import { type Static, Type } from 'typebox'
import { loadConfig } from '#lib/config.ts'
import { AppError } from '#lib/errors.ts'
import { createPasswords, newOneTimePassword } from '#services/access/people/passwords.ts'
import {
  addPerson,
  checkNewPerson,
  listPeople,
  type ProviderAccount,
  removePerson,
  setRole,
} from '#services/access/people/people.ts'
import type { Person } from '#services/access/people/rows.ts'
import { peopleSettings, providerOf } from '#services/access/people/settings.ts'
import { type Action, defineAction, tableOf } from './action.ts'
import { agentServices, published } from './agents/agent.ts'
import { orNull, role, textField, time } from './shapes.ts'

/** One for the process: each password takes 128 MiB while it is hashed. */
const passwords = createPasswords()

const userFields = {
  uid: Type.String(),
  email: Type.String(),
  name: Type.String(),
  role,
  signs_in_with: Type.Array(Type.Enum(['password', 'provider'], { type: 'string' })),
  must_change_password: Type.Boolean(),
  oidc_subject: orNull(Type.String(), 'Who the person is at the provider.'),
  created_at: time,
  signed_in_at: orNull(time, 'The last time.'),
}

const user = Type.Object(userFields, { title: 'User' })
const users = Type.Object({ users: Type.Array(user) }, { title: 'Users' })
const removed = Type.Object({ ...userFields, removed: Type.Literal(true) }, { title: 'RemovedUser' })
const added = Type.Object(
  {
    ...userFields,
    one_time_password: orNull(
      Type.String(),
      'Shown once, to be replaced at the first sign-in; null for who signs in at a provider.',
    ),
  },
  { title: 'AddedUser' },
)
type UserView = Static<typeof user>

const reads = ['relational_engine_unavailable'] as const
const writes = [...reads, 'not_found', 'last_admin', 'log_unavailable'] as const
const inPath = { user: textField('E-mail or uid.', 'ana@example.com', 254) }

export const addUserAction = defineAction({
  name: 'users add',
  summary: 'Add a person',
  services: agentServices,
  args: Type.Object({
    email: Type.String(),
    name: Type.Optional(Type.String()),
    role: Type.Optional(role),
    oidc_subject: Type.Optional(Type.String()),
  }),
  change: { action: 'person.add', target: ({ email }) => email },
  async run({ platform, note }, { oidc_subject: subject, ...input }) {
    const provider = providerOf(loadConfig(peopleSettings, platform.env))
    const account = subject === undefined ? undefined : accountAt(provider?.issuer, subject)
    const given = { ...input, ...(account ? { account } : {}) }
    // A password costs a good part of a second.
    checkNewPerson(given)
    // Firebase keeps the passwords of its people; who is named by a subject signs in there.
    const password = account || provider?.kind === 'firebase' ? null : newOneTimePassword()
    const hash = password === null ? {} : { password: await passwords.hash(password, 'users add') }
    const { person } = await published(
      platform,
      addPerson(platform.engines.relational, { ...given, ...hash }, note),
    )
    return { ...viewOf(person), one_time_password: password }
  },
  http: {
    role: 'admin',
    problems: [...reads, 'person_exists', 'rate_limited', 'overloaded', 'log_unavailable'],
    method: 'POST',
    path: '/users',
    operationId: 'addUser',
    tag: 'people',
    fields: {
      email: textField('Unique without case.', 'ana@example.com', 254),
      name: Type.Optional(
        textField('What people read; by default the part of the e-mail before the @.', 'Ana', 64),
      ),
      oidc_subject: Type.Optional(
        textField(
          'Who the person is at OIDC_ISSUER or Firebase; then there is no password.',
          '248289761001',
          255,
        ),
      ),
    },
    body: { title: 'NewUser', examples: [{ email: 'ana@example.com', role: 'viewer' }] },
    answer: added,
    status: 201,
    headers: () => ({ 'cache-control': 'no-store' }),
  },
  cli: [
    {
      summary: 'Add a person; prints a password that has to be replaced at the first sign-in',
      positional: ['email'],
      options: {
        name: ['name', 'what people read (default: the part before the @)'],
        role: ['role', 'what the person may do (default: member)'],
        oidc_subject: ['subject', 'who the person is at OIDC_ISSUER or Firebase; then there is no password'],
      },
      example: 'flotilla users add ana@example.com --role viewer',
      render: ({ uid, email, name, role, oidc_subject, one_time_password }) => ({
        fields: {
          ...{ uid, email, name, role },
          ...(one_time_password === null ? { oidc_subject } : { one_time_password }),
        },
      }),
    },
  ],
})

export const listUsersAction = defineAction({
  name: 'users list',
  summary: 'All people, by their e-mails',
  args: Type.Object({}),
  async run({ platform }): Promise<{ users: UserView[] }> {
    return { users: (await listPeople(platform.engines.relational)).map(viewOf) }
  },
  http: {
    role: 'admin',
    problems: reads,
    method: 'GET',
    path: '/users',
    operationId: 'listUsers',
    tag: 'people',
    answer: users,
  },
  cli: [
    {
      example: 'flotilla users list',
      render: (all) =>
        tableOf(all.users, {
          'e-mail': ({ email }) => email,
          name: ({ name }) => name,
          role: ({ role }) => role,
          'signs in with': ({ must_change_password, signs_in_with }) =>
            must_change_password ? 'one-time password' : signs_in_with.join(', ') || null,
          'last sign-in': ({ signed_in_at }) => signed_in_at,
          uid: ({ uid }) => uid,
        }),
    },
  ],
})

export const setUserRoleAction = defineAction({
  name: 'users role',
  summary: 'Give a person another role',
  services: agentServices,
  args: Type.Object({ user: Type.String(), role }),
  change: { action: 'person.role', target: ({ user }) => user },
  async run({ platform, note }, { user, role }): Promise<UserView> {
    const { person } = await published(platform, setRole(platform.engines.relational, user, role, note))
    return viewOf(person)
  },
  http: {
    role: 'admin',
    problems: writes,
    method: 'PATCH',
    path: '/users/:user',
    operationId: 'setUserRole',
    tag: 'people',
    description: 'It acts on every instance when this answers; open streams of the person end.',
    fields: inPath,
    body: { title: 'UserRole', examples: [{ role: 'admin' }] },
    answer: user,
  },
  cli: [
    {
      summary: 'What the person may do; it acts everywhere when the command returns',
      positional: ['user', 'role'],
      example: 'flotilla users role ana@example.com admin',
      render: ({ email, role }) => `${email} is ${role}`,
    },
  ],
})

export const removeUserAction = defineAction({
  name: 'users remove',
  summary: 'Remove a person; sessions, tokens and open streams end',
  services: agentServices,
  args: Type.Object({ user: Type.String() }),
  change: { action: 'person.remove', target: ({ user }) => user },
  async run({ platform, note }, { user }) {
    const { person } = await published(platform, removePerson(platform.engines.relational, user, note))
    return { ...viewOf(person), removed: true as const }
  },
  http: {
    role: 'admin',
    problems: writes,
    method: 'DELETE',
    path: '/users/:user',
    operationId: 'removeUser',
    tag: 'people',
    fields: inPath,
    answer: removed,
  },
  cli: [
    {
      positional: ['user'],
      example: 'flotilla users remove ana@example.com',
      render: ({ email }) => `${email} is removed`,
    },
  ],
})

export const userActions: readonly Action[] = [
  addUserAction,
  listUsersAction,
  setUserRoleAction,
  removeUserAction,
]

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
