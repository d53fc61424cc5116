/** The goals of the fleet: made by agents, people and collective dispatches, and moved through their states. */

import type { SqlExecutor, SqlTransaction } from '#engines/relational/port.ts'
import { AppError } from '#lib/errors.ts'
import type { Author, Priority, RecordKind, RecordRow } from '../store/kind.ts'
import { changeWithin, makeRecord, type RecordHeaders } from '../store/write.ts'

export const goalStatuses = ['pending', 'active', 'completed', 'failed', 'canceled'] as const
export type GoalStatus = (typeof goalStatuses)[number]

export const goalKind: RecordKind<GoalStatus> = {
  name: 'goal',
  table: 'platform.goals',
  title: 'title',
  text: 'description',
  own: ['of_dispatch'],
  threaded: false,
  transitions: {
    pending: ['active', 'canceled'],
    active: ['completed', 'failed', 'canceled'],
    completed: [],
    failed: [],
    canceled: [],
  },
  refuse(goal, { status }, by) {
    if (!(goal as Goal).of_dispatch || status === undefined || by === dispatch) return
    throw new AppError('goal_of_dispatch', 'The status of this goal follows the runs of its dispatch.')
  },
}

const dispatch: Author = { name: 'dispatch', uid: 'dispatch', isAdmin: true }

export interface Goal extends RecordRow<GoalStatus> {
  title: string
  description: string
  of_dispatch: boolean
}

export interface NewGoal {
  title: string
  description?: string
  priority?: Priority
  /** The same in every run of one request: the goal that it made before is given again. */
  creationKey?: string
  /** True for the goal of a collective dispatch: it begins active, and no PATCH moves it. */
  ofDispatch?: boolean
}

/** In the caller's transaction, where it is one. Wake the outbox-publisher after the commit. */
export async function createGoal(
  executor: SqlExecutor,
  goal: NewGoal,
  by: Author,
  headers?: RecordHeaders,
): Promise<Goal> {
  const { title, description = '', priority = 'normal', ofDispatch = false } = goal
  const creationKey = goal.creationKey ?? null
  const insert = {
    kind: goalKind,
    statement: `insert into platform.goals (title, description, priority, status, of_dispatch, author, author_uid, creation_key)
      values ($1, $2, $3, $4, $5, $6, $7, $8) on conflict (creation_key) do nothing`,
    params: [
      title,
      description,
      priority,
      ofDispatch ? 'active' : 'pending',
      ofDispatch,
      by.name,
      by.uid,
      creationKey,
    ],
    agent: by.name,
    headers,
  }
  return makeRecord<Goal>(executor, insert, creationKey)
}

/** For the dispatch that the goal belongs to, in its transaction. Throws AppError `not_found` or `invalid_transition`. */
export function moveDispatchGoal(
  tx: SqlTransaction,
  id: number,
  status: GoalStatus,
  headers?: RecordHeaders,
): Promise<Goal> {
  return changeWithin<Goal>(tx, goalKind, { id, changes: { status }, by: dispatch, headers })
}
