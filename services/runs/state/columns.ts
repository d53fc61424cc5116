/** How rows of runs are read: the columns of a run, and of one that a dispatcher holds. */

import type { Content, Run } from './types.ts'

const runFields = {
  runId: 'run_id',
  slug: 'slug',
  agent: 'agent',
  userId: 'user_id',
  userUid: 'user_uid',
  sessionId: 'session_id',
  status: 'status',
  trigger: 'trigger',
  parentRunId: 'parent_run_id',
  rootRunId: 'root_run_id',
  goalId: 'goal_id',
  depth: 'depth',
  attempt: 'attempt',
  error: 'error',
  joined: 'joined',
  skipped: 'skipped',
  summary: 'summary',
  callerUid: 'caller_uid',
  requestId: 'request_id',
  cancelRequestedAt: 'cancel_requested_at',
  createdAt: 'created_at',
  startedAt: 'started_at',
  endedAt: 'ended_at',
} as const satisfies Partial<Record<keyof Run, string>>

const claimedFields = {
  epoch: 'epoch',
  message: 'message',
  messageAuthor: 'message_author',
  streaming: 'streaming',
  stateDelta: 'state_delta',
  customMetadata: 'custom_metadata',
  traceparent: 'traceparent',
  deadline: 'deadline',
} as const

/** A run that this dispatcher runs, with what its node is given. */
export interface ClaimedRun extends Run {
  epoch: number
  /** Null for a report: its text is made from the report's row. */
  message: Content | null
  messageAuthor: string | null
  streaming: boolean
  stateDelta: Record<string, unknown> | null
  customMetadata: Record<string, unknown> | null
  traceparent: string | null
  deadline: Date | null
  /** Since its first start. */
  elapsedMs: number
  /** Until its deadline. */
  leftMs: number | null
}

/** Columns of `r`, a row of platform.runs; `lastEventId` is SQL, by default of `t`, its row of platform.run_trees. */
export function runColumns(lastEventId = 't.last_event_id'): string {
  return `${listed(runFields)}, ${lastEventId} as "lastEventId"`
}

/** Columns of `r` alone: `lastEventId` is 0. */
export function claimedColumns(): string {
  const ms = (interval: string) => `(extract(epoch from ${interval}) * 1000)::float8`
  return `${runColumns('0')}, ${listed(claimedFields)}, ${ms('clock_timestamp() - r.started_at')} as "elapsedMs",
    ${ms('r.deadline - clock_timestamp()')} as "leftMs"`
}

export const runsWithTrees = 'platform.runs r join platform.run_trees t on t.root_run_id = r.root_run_id'

function listed(fields: Record<string, string>): string {
  return Object.entries(fields)
    .map(([name, column]) => `r.${column} as "${name}"`)
    .join(', ')
}
