/** Collective dispatches, the newest first. */

import { Type } from 'typebox'
import { type ListedDispatch, listDispatches } from '#services/runs/state/list-dispatches.ts'
import { defineOperation } from './operation.ts'

export const dispatchStatuses = ['running', 'completed', 'partial', 'failed', 'canceled'] as const

type DispatchSummary = Omit<ListedDispatch, 'deadline' | 'createdAt' | 'endedAt'> & {
  deadline: string
  createdAt: string
  endedAt: string | null
}

export const listDispatchesOperation = defineOperation({
  name: 'dispatches list',
  needs: [],
  args: Type.Object({
    /** Only those that this caller started, or that are of this user. */
    own: Type.Optional(Type.Object({ callerUid: Type.String(), userUid: Type.String() })),
    status: Type.Optional(Type.Enum(dispatchStatuses)),
    limit: Type.Integer({ minimum: 1, maximum: 1_000 }),
    before: Type.Optional(Type.Integer()),
  }),
  async run({ platform }, query): Promise<{ dispatches: DispatchSummary[]; next: number | null }> {
    const { dispatches, next } = await listDispatches(platform.engines.relational, query)
    return {
      dispatches: dispatches.map(({ deadline, createdAt, endedAt, ...one }) => ({
        ...one,
        deadline: deadline.toISOString(),
        createdAt: createdAt.toISOString(),
        endedAt: endedAt?.toISOString() ?? null,
      })),
      next,
    }
  },
})
