/** What a run, its events and a dispatch are, as every room of this area sees them. */

import type { Content, Part, RunEvent } from '#client/run-types.ts'
import type { ErrorCode } from '#lib/errors.ts'

export const runStatuses = ['queued', 'running', 'completed', 'failed', 'canceled'] as const
export type RunStatus = (typeof runStatuses)[number]

/** `report` runs give AXON the report of another run; they are never listed to callers but admins. */
export const runTriggers = ['api', 'mention', 'dispatch', 'synthesis', 'report'] as const
export type RunTrigger = (typeof runTriggers)[number]

/** Why a run failed. */
export interface RunError {
  /** As in problem documents. */
  code: ErrorCode
  /** For people; never a node's own text beyond its error message, cut at 500 characters, never a path or a stack. */
  message: string
  retryable: boolean
}

/** Why a named agent did not join. */
export type SkipReason = 'unknown' | 'depth' | 'fan_out' | 'pair' | 'budget' | 'queue_full'

/** Events of ADK as clients see them: camelCase, timestamp in seconds, invocationId = run id, author = codename. */
export type { Content, Part, RunEvent }

/** A row of platform.runs. Times are Dates; the gateway shows them as ISO text. */
export interface Run {
  runId: string
  /** Lower case, as in the nodes file and in paths. */
  slug: string
  /** Codename in capitals: what clients see as appName and author. */
  agent: string
  userId: string
  /** uid of the user; null for a free name, and where it is not known. */
  userUid: string | null
  sessionId: string
  status: RunStatus
  trigger: RunTrigger
  parentRunId: string | null
  /** The run itself for a run without parent. */
  rootRunId: string
  goalId: number | null
  depth: number
  attempt: number
  error: RunError | null
  joined: { agent: string; runId: string }[]
  skipped: { agent: string; reason: SkipReason }[]
  /** The text of the last final event, at most 2 kB. */
  summary: string | null
  /** uid of who called; '' for runs that the platform made. */
  callerUid: string
  requestId: string | null
  cancelRequestedAt: Date | null
  createdAt: Date
  startedAt: Date | null
  endedAt: Date | null
  /** Greatest sequence among the durable events of the root run. */
  lastEventId: number
}

/** A durable event: seq is 1, 2, 3 … within the root run, over all runs of its tree. */
export interface StoredEvent {
  seq: number
  runId: string
  event: RunEvent
}

export const dispatchStatuses = ['running', 'completed', 'partial', 'failed', 'canceled'] as const
export type DispatchStatus = (typeof dispatchStatuses)[number]

export interface Dispatch {
  goalId: number
  userId: string
  /** As of a run. */
  userUid: string | null
  sessionId: string
  status: DispatchStatus
  deadline: Date
  result: string | null
  callerUid: string
  createdAt: Date
  endedAt: Date | null
  /** Runs of the dispatch in the order of the nodes file; mentions and the synthesis are not among them. */
  runs: Run[]
}
