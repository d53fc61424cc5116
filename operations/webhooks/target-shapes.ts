/** Shapes of webhook targets that several actions and routes share. */

import { type Static, Type } from 'typebox'
import { orNull, textField, time } from '../shapes.ts'

export const targetProblems = ['log_unavailable', 'relational_engine_unavailable'] as const
/** In paths. */
export const targetInPath = textField('A target.', 'ops-channel', 200)

export const listedTarget = Type.Object({
  target: Type.String(),
  state: Type.Enum(['idle', 'delivering', 'retrying', 'outage', 'removed', 'new'], { type: 'string' }),
  partition: orNull(Type.Integer()),
  lag: Type.Integer({ description: 'Accepted, not yet delivered or parked.' }),
  head_sequence: orNull(Type.Integer(), 'Of the oldest that waits.'),
  head_age_s: orNull(Type.Number()),
  head: orNull(
    Type.Object({
      sequence: Type.Integer(),
      event: Type.String(),
      agent: Type.String(),
      task_id: Type.String(),
      webhook_id: Type.String(),
      received_at: time,
      attempts: Type.Integer({ description: 'So far.' }),
    }),
    'The delivery that is being tried; those behind it wait for it.',
  ),
  breaker: Type.String(),
  next_attempt_at: orNull(time),
  last_status: orNull(Type.Integer()),
  last_fault: orNull(Type.String()),
  last_sequence: orNull(Type.Integer()),
  last_attempt: orNull(Type.Integer()),
  last_at: orNull(time),
})
export type ListedTarget = Static<typeof listedTarget>
