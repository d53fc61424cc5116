/** GET /api/v1/audit: who did what. */

import type { TypeBoxTypeProvider } from '@fastify/type-provider-typebox'
import type { FastifyInstance } from 'fastify'
import { Type } from 'typebox'
import { auditPageMax, listAuditOperation } from '#operations/audit.ts'
import { closed } from '../envelope.ts'
import type { MainApi } from '../main-api.ts'
import { operate } from '../operate.ts'
import { name, numberUpTo, orNull, time, wholeNumber } from '../schemas.ts'

const query = Type.Object(
  {
    limit: Type.Optional(wholeNumber(`1 to ${auditPageMax}; by default 100.`, '20')),
    cursor: Type.Optional(name('`next` of the page before.', 'YTQy', 64)),
    actor: Type.Optional(name('Only of this uid, or user of the command line.', 'agent_01k2')),
    action: Type.Optional(name('Only this action.', 'agent.provision')),
    target: Type.Optional(name('Only on this target.', 'whale')),
  },
  closed,
)

/** A change as it was noted. */
export const action = Type.Object({
  id: Type.String({ description: 'Also the event id of its record in admin.audit.' }),
  actor: Type.Object({
    kind: Type.Enum(['agent', 'person', 'command_line'], { type: 'string' }),
    id: Type.String({ description: 'uid; of a command line the user of the system.' }),
  }),
  action: Type.String(),
  target: Type.String(),
  before: Type.Unsafe<unknown>({ description: 'Without secrets; null where there is nothing.' }),
  after: Type.Unsafe<unknown>({ description: 'Without secrets; null where there is nothing.' }),
  outcome: Type.Enum(['done', 'refused', 'failed'], { type: 'string' }),
  reason: orNull(Type.String(), 'The error code of what was refused or failed.'),
  request_id: orNull(Type.String()),
  count: Type.Integer({ description: 'Things that it changed, or tries that it sums up.' }),
  occurred_at: time,
})

const page = Type.Object(
  {
    actions: Type.Array(action, { description: 'The newest first; kept for a year.' }),
    next: orNull(Type.String(), 'The cursor of the next page; null: this is the last one.'),
  },
  { title: 'AdminActions' },
)

export function registerAudit(scope: FastifyInstance, { context }: MainApi): void {
  scope.withTypeProvider<TypeBoxTypeProvider>().get(
    '/audit',
    {
      config: { problems: ['forbidden', 'relational_engine_unavailable'] },
      schema: {
        operationId: 'listAdminActions',
        tags: ['audit'],
        summary: 'Who did what to the platform',
        description: 'Every change through this API or the command line, done, refused or failed.',
        querystring: query,
        response: { 200: page },
      },
    },
    async (request) => {
      const { limit = '100', ...filter } = request.query
      const args = { limit: numberUpTo(auditPageMax, 'limit', limit), ...filter }
      return operate(context, request, listAuditOperation, args)
    },
  )
}
