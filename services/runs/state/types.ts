/** What a run, its events and a dispatch are, as every room of this area sees them, and how rows of runs are read. */

import type { Content, Part, RunEvent } from '#client/run-types.ts'
import type { ErrorCode } from '#lib/errors.ts'

export const runStatuses = ['queued', 'running', 'input_required', 'completed', 'failed', 'canceled'] as const
export type RunStatus = (typeof runStatuses)[number]

/** `report` runs give AXON the report of another run; they are never listed to callers but admins. */
export const runTriggers = ['api', 'schedule', 'mention', 'dispatch', 'synthesis', 'report'] as const
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

/** A named agent that did not join. With `count` it is so many names, of which none is listed. */
export interface Skipped {
  agent: string
  reason: SkipReason
  count?: number
}

/** Events of ADK as clients see them: camelCase, timestamp in seconds, invocationId = run id, author = codename. */
export type { Content, Part, RunEvent }

/** What a run waits for: the calls that a person or a program is to answer, and the agent's words about them. */
export interface Question {
  /** Without `args` where they are too long; the events have them. */
  calls: { id: string; name: string; args?: unknown }[]
  text: string
}

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
  skipped: Skipped[]
  /** For filters, set by the caller: at most 16 texts by name; null for none. */
  metadata: Record<string, string> | null
  /** Kept when it was answered: it counts while the run is `input_required`. */
  question: Question | null
  askedAt: Date | null
  expiresAt: Date | null
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
  /** Text of its message, in lists and dispatches its first 200 characters; null: it has none. */
  text: string | null
}

/** A run with its message as it was sent. */
export interface WholeRun extends Run {
  message: Content | null
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

const runFields = listed(
  `run_id slug agent user_id user_uid session_id status trigger parent_run_id root_run_id goal_id depth attempt error joined skipped
   metadata question asked_at expires_at summary caller_uid request_id cancel_requested_at created_at started_at ended_at`,
)
const claimedFields = listed(
  'epoch message message_author streaming state_delta custom_metadata traceparent deadline events asked_attempt input answer_seq',
)

/** A run that this dispatcher runs, with what its node is given. */
export interface ClaimedRun extends Omit<Run, 'text'> {
  epoch: number
  /** Null for a report: its text is made from the report's row. */
  message: Content | null
  messageAuthor: string | null
  streaming: boolean
  stateDelta: Record<string, unknown> | null
  customMetadata: Record<string, unknown> | null
  traceparent: string | null
  deadline: Date | null
  /** Durable events so far. */
  events: number
  /** The attempt that asked last; 0: none. */
  askedAttempt: number
  /** The answer to its question, which its node is given. */
  input: Content | null
  /** The place of the answer in the tree. */
  answerSeq: number | null
  /** Since its first start, or that after the last answer. */
  elapsedMs: number
  /** Until its deadline. */
  leftMs: number | null
}

/** Rows of before the migration have no beginning of their message. */
export const messageStart = 'coalesce(r.message_start, platform.message_start(r.message))'
const withTree = `${runFields}, t.last_event_id as "lastEventId"`
/** Columns of `r`, a row of platform.runs, and of `t`, its row of platform.run_trees. */
export const runColumns = `${withTree}, ${messageStart} as text`
/** As `runColumns`, of a `WholeRun` but its text. */
export const wholeRunColumns = `${withTree}, r.message`
export const runsWithTrees = 'platform.runs r join platform.run_trees t on t.root_run_id = r.root_run_id'

const msOf = (interval: string) => `(extract(epoch from ${interval}) * 1000)::float8`
/** Columns of `r` alone: `lastEventId` is 0. */
export const claimedColumns = `${runFields}, 0 as "lastEventId", ${claimedFields},
  ${msOf('clock_timestamp() - coalesce(r.resumed_at, r.started_at)')} as "elapsedMs", ${msOf('r.deadline - clock_timestamp()')} as "leftMs"`

/** The message in `column` without its bytes: a list of messages may be read whole. */
export function textsOf(column: string): string {
  return `(select json_build_object('parts',
      coalesce(json_agg(json_build_object('text', part->'text', 'thought', part->'thought')), '[]'))
    from json_array_elements(${column}->'parts') as part where part->>'text' is not null)`
}

/** As `claimedColumns`, with the texts of the message alone. */
export const claimedTexts = claimedColumns.replace('r.message as', `${textsOf('r.message')} as`)

/** Columns of `r` under their names in `Run`: `run_id` as `runId`. */
function listed(columns: string): string {
  const camel = (column: string) => column.replace(/_[a-z]/g, (part) => part.charAt(1).toUpperCase())
  const list = columns.split(/\s+/)
  return list.map((column) => `r.${column} as "${camel(column)}"`).join(', ')
}

const normalEnds: ReadonlySet<string> = new Set([
  'STOP',
  'END_TURN',
  'STOP_SEQUENCE',
  'TOOL_CALLS',
  'TOOL_USE',
])
/** The model had more to say: what it said is an answer. */
const cutEnds: ReadonlySet<string> = new Set(['MAX_TOKENS', 'LENGTH'])

/** Whether the event says that the agent failed. `hasSpoken`: there is text of it, in this event or before. */
export function isFault({ errorCode }: Pick<RunEvent, 'errorCode'>, hasSpoken: boolean): boolean {
  if (!errorCode) return false
  const reason = errorCode.toUpperCase()
  return !(normalEnds.has(reason) || (cutEnds.has(reason) && hasSpoken))
}

/** The text parts, without an agent's thoughts, calls of tools and their results. */
export function spokenText({ parts }: Content): string {
  return parts
    .filter(({ text, thought }) => typeof text === 'string' && thought !== true)
    .map(({ text }) => text)
    .join('\n\n')
}

const attachments = ['inlineData', 'inline_data', 'fileData', 'file_data']

/** The parts that agents which join get along with the text: bytes and files. Responses are for the agent that called alone. */
export function attachmentsOf({ parts }: Content): Part[] {
  return parts.filter((part) => attachments.some((key) => part[key] !== undefined && part[key] !== null))
}
