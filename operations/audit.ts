/** Who did what to the platform. */

import { Type } from 'typebox'
import { type ListedAction, listAdminActions } from '#services/access/admin-audit/admin-audit.ts'
import { defineOperation } from './operation.ts'

export const auditPageMax = 1_000

export const listAuditOperation = defineOperation({
  name: 'audit list',
  needs: [],
  args: Type.Object({
    limit: Type.Integer({ minimum: 1, maximum: auditPageMax }),
    cursor: Type.Optional(Type.String()),
    actor: Type.Optional(Type.String()),
    action: Type.Optional(Type.String()),
    target: Type.Optional(Type.String()),
  }),
  run: ({ platform }, page): Promise<{ actions: ListedAction[]; next: string | null }> =>
    listAdminActions(platform.engines.relational, page),
})
