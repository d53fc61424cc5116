/** GET /api/v1/me: who is calling, and what they may do. */

import type { TypeBoxTypeProvider } from '@fastify/type-provider-typebox'
import type { FastifyInstance } from 'fastify'
import { type Static, Type } from 'typebox'
import { callerOf } from '#services/access/callers/caller.ts'
import { limitsOf } from '#services/access/limits/limiter.ts'
import { permissionsOf } from '../rbac.ts'
import { orNull, role } from '../schemas.ts'

const figure = (description: string) => orNull(Type.Integer(), description)

const me = Type.Object(
  {
    uid: Type.String(),
    kind: Type.Enum(['agent', 'person'], { type: 'string' }),
    slug: Type.String({ description: 'The agent id; of a person the uid.' }),
    name: Type.String(),
    email: Type.Optional(Type.String({ description: 'Of a person.' })),
    role,
    must_change_password: Type.Optional(
      Type.Boolean({ description: 'Of a person: nothing else is allowed before that.' }),
    ),
    permissions: Type.Array(Type.String({ examples: ['GET /api/v1/me'] }), {
      description: 'The routes that the caller may call.',
    }),
    limits: Type.Object({
      burst: figure('Requests that begin within any one second; null: unlimited.'),
      concurrent: figure('Requests at once; null: unlimited.'),
    }),
  },
  { title: 'Me' },
)

export function registerMe(scope: FastifyInstance): void {
  scope.withTypeProvider<TypeBoxTypeProvider>().get(
    '/me',
    {
      config: { problems: ['forbidden'] },
      schema: {
        operationId: 'getMe',
        tags: ['identity'],
        summary: 'Who is calling, and what they may do',
        response: { 200: me },
      },
    },
    async (request) => {
      const caller = callerOf(request)
      const { rate, slots } = limitsOf(caller, false)
      const { uid, kind, agentId, name, email, access, mustChangePassword } = caller
      const data: Static<typeof me> = {
        uid,
        kind,
        slug: agentId,
        name,
        role: access,
        permissions: [...permissionsOf(caller)],
        limits: { burst: rate, concurrent: slots },
      }
      if (email !== undefined) data.email = email
      if (mustChangePassword !== undefined) data.must_change_password = mustChangePassword
      return data
    },
  )
}
