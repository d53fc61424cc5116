/** /api/v1/users: the people who may use the main API and the console. */

import type { TypeBoxTypeProvider } from '@fastify/type-provider-typebox'
import type { FastifyInstance } from 'fastify'
import { Type } from 'typebox'
import {
  addUserOperation,
  listUsersOperation,
  removeUserOperation,
  setUserRoleOperation,
} from '#operations/users.ts'
import { closed } from '../envelope.ts'
import type { MainApi } from '../main-api.ts'
import { operate } from '../operate.ts'
import { name, orNull, role, time } from '../schemas.ts'

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

const newUser = Type.Object(
  {
    email: name('Unique without case.', 'ana@example.com', 254),
    name: Type.Optional(name('What people read; by default the part of the e-mail before the @.', 'Ana', 64)),
    role: Type.Optional(role),
    oidc_subject: Type.Optional(
      name('Who the person is at OIDC_ISSUER or Firebase; then there is no password.', '248289761001', 255),
    ),
  },
  { ...closed, title: 'NewUser', examples: [{ email: 'ana@example.com', role: 'viewer' }] },
)
const newRole = Type.Object({ role }, { ...closed, title: 'UserRole', examples: [{ role: 'admin' }] })

const params = Type.Object({ user: name('E-mail or uid.', 'ana@example.com', 254) }, closed)

const reads = ['forbidden', 'relational_engine_unavailable'] as const
const changes = [...reads, 'not_found', 'last_admin', 'log_unavailable'] as const

export function registerUsers(scope: FastifyInstance, { context }: MainApi): void {
  const routes = scope.withTypeProvider<TypeBoxTypeProvider>()
  routes.get(
    '/users',
    {
      config: { problems: reads },
      schema: {
        operationId: 'listUsers',
        tags: ['people'],
        summary: 'All people, by their e-mails',
        response: { 200: users },
      },
    },
    (request) => operate(context, request, listUsersOperation, {}),
  )
  routes.post(
    '/users',
    {
      config: { problems: [...reads, 'person_exists', 'rate_limited', 'overloaded', 'log_unavailable'] },
      schema: {
        operationId: 'addUser',
        tags: ['people'],
        summary: 'Add a person',
        body: newUser,
        response: { 201: added },
      },
    },
    async (request, reply) => {
      const { oidc_subject: oidcSubject, ...given } = request.body
      const args = { ...given, ...(oidcSubject === undefined ? {} : { oidcSubject }) }
      const data = await operate(context, request, addUserOperation, args)
      reply.code(201).header('cache-control', 'no-store')
      return data
    },
  )
  routes.patch(
    '/users/:user',
    {
      config: { problems: changes },
      schema: {
        operationId: 'setUserRole',
        tags: ['people'],
        summary: 'Give a person another role',
        description: 'It acts on every instance when this answers; open streams of the person end.',
        params,
        body: newRole,
        response: { 200: user },
      },
    },
    async (request) => {
      const args = { user: request.params.user, role: request.body.role }
      return operate(context, request, setUserRoleOperation, args)
    },
  )
  routes.delete(
    '/users/:user',
    {
      config: { problems: changes },
      schema: {
        operationId: 'removeUser',
        tags: ['people'],
        summary: 'Remove a person; sessions, tokens and open streams end',
        params,
        response: { 200: removed },
      },
    },
    (request) => operate(context, request, removeUserOperation, { user: request.params.user }),
  )
}
