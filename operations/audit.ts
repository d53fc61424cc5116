/** Who did what to the platform. */

import { Type } from 'typebox'
import { type ListedAction, listAdminActions } from '#services/access/admin-audit/admin-audit.ts'
import { type Action, defineAction } from './action.ts'
import { orNull, textField, time } from './shapes.ts'

const pageMax = 1_000

/** A change as it was noted. */
export const notedChange = Type.Object({
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

const listAuditAction = defineAction({
  name: 'audit list',
  summary: 'Who did what to the platform',
  args: Type.Object({
    limit: Type.Optional(
      Type.Integer({
        minimum: 1,
        maximum: pageMax,
        description: `1 to ${pageMax}; by default 100.`,
        examples: [20],
      }),
    ),
    cursor: Type.Optional(textField('`next` of the page before.', 'YTQy', 64)),
    actor: Type.Optional(textField('Only of this uid, or user of the command line.', 'agent_01k2')),
    action: Type.Optional(textField('Only this action.', 'agent.provision')),
    target: Type.Optional(textField('Only on this target.', 'whale')),
  }),
  run: (
    { platform },
    { limit = 100, ...filter },
  ): Promise<{ actions: ListedAction[]; next: string | null }> =>
    listAdminActions(platform.engines.relational, { limit, ...filter }),
  http: {
    role: 'admin',
    problems: ['relational_engine_unavailable'],
    method: 'GET',
    path: '/audit',
    operationId: 'listAdminActions',
    tag: 'audit',
    description: 'Every change through this API or the command line, done, refused or failed.',
    answer: Type.Object(
      {
        actions: Type.Array(notedChange, { description: 'The newest first; kept for a year.' }),
        next: orNull(Type.String(), 'The cursor of the next page; null: this is the last one.'),
      },
      { title: 'AdminActions' },
    ),
  },
})

export const auditActions: readonly Action[] = [listAuditAction]
