/** Writes the row of a new run, with its tree and the record that wakes the dispatchers, in one statement. */

import { createHash } from 'node:crypto'
import type { SqlExecutor } from '#engines/relational/port.ts'
import { randomHex } from '#lib/random-hex.ts'
import { headerNames } from '#runtime/publish/messages.ts'
import type { ClaimedRun } from './columns.ts'
import type { Content, Run, RunTrigger } from './types.ts'

/** Runs of callers that wait in one lane. */
const waitingMax = 10
/** With those that the platform made. */
const laneMax = 200
/** Runs of one caller that wait at one node, in all its lanes. */
export const callerWaitingMax = 100

export interface NewRunRow {
  runId: string
  slug: string
  agent: string
  userId: string
  sessionId: string
  trigger: RunTrigger
  callerUid: string
  requestId: string | null
  traceparent?: string | null
  message: Content | null
  messageAuthor?: string
  streaming: boolean
  stateDelta?: Record<string, unknown>
  customMetadata?: Record<string, unknown>
  parentRunId?: string | null
  rootRunId?: string
  goalId?: number | null
  depth?: number
  deadline?: Date | null
}

/** How a dispatcher claims a run with its acceptance. */
export interface ClaimAtOnce {
  holder: string
  leaseMs: number
  /** Runs of the node at once, over all dispatchers. */
  concurrency: number
}

export type Inserted =
  /** `claimed`: under the first epoch; undefined: it waits for a dispatcher. */
  | { run: Run; claimed?: ClaimedRun }
  /** Nothing was written: `refused` says why, null: the run exists. `active` is the lane's run that is to end first. */
  | { run: null; refused: Refused | null; active: string | null }

/** The session is another user's, the lane is busy and the run may not wait, or full, or too many runs of the caller wait. */
export type Refused = 'user' | 'busy' | 'lane' | 'caller'

/** A new id of 128 random bits. */
export function newRunId(): string {
  return `run_${randomHex(16)}`
}

/** An id that depends on nothing but its parts: what is written twice under it is one run. */
export function runIdOf(...parts: string[]): string {
  return `run_${createHash('sha256').update(parts.join('\n')).digest('hex').slice(0, 32)}`
}

/**
 * Inserts the run, unless its session is another user's of the same name, its lane is full, or busy and `reject` is set, or too
 * many runs of its caller wait at the node. Runs of mentions and of the platform itself are refused only by a lane that is far
 * too long, those of the platform by no count of callers. With `claim` it is claimed at once where its lane is free, its node has
 * a free slot and nothing else waits there.
 * `notify` wakes the dispatchers with the commit: only where no other commit waits for it.
 */
export async function insertRun(
  executor: SqlExecutor,
  run: NewRunRow,
  { reject = false, notify = false, claim }: { reject?: boolean; notify?: boolean; claim?: ClaimAtOnce } = {},
): Promise<Inserted> {
  const rootRunId = run.rootRunId ?? run.runId
  const { rows } = await executor.query<{
    made: string | null
    refused: Refused | null
    active: string | null
    accepted_at: Date
    claimed: boolean
    uid: string | null
  }>(statement, [
    run.runId,
    run.slug,
    run.agent,
    run.userId,
    run.sessionId,
    run.trigger,
    run.callerUid,
    run.requestId,
    run.traceparent ?? null,
    json(run.message),
    run.messageAuthor ?? null,
    run.streaming,
    json(run.stateDelta),
    json(run.customMetadata),
    run.parentRunId ?? null,
    rootRunId,
    run.goalId ?? null,
    run.depth ?? 0,
    run.deadline ?? null,
    reject,
    run.trigger === 'api' || run.trigger === 'dispatch',
    JSON.stringify(headersOf(run)),
    notify,
    claim?.holder ?? null,
    claim?.leaseMs ?? null,
    claim?.concurrency ?? null,
    ofPlatform.has(run.trigger) ? null : callerWaitingMax,
  ])
  const { made, refused, active, accepted_at: createdAt, claimed, uid } = rows[0]!
  if (made === null) return { run: null, refused, active }
  const accepted = acceptedRun(run, { rootRunId, createdAt, userUid: uid })
  return { run: accepted, ...(claimed ? { claimed: claimedAtOnce(run, accepted) } : {}) }
}

/** Made for callers by the platform, a few for each of their own runs. */
const ofPlatform: ReadonlySet<RunTrigger> = new Set(['synthesis', 'report'])

const statement = `select made, refused, active, accepted_at, claimed, uid
  from platform.accept_run($1, $2, $3, $4, $5, $6, $7, $8, $9, $10::json, $11, $12, $13::json, $14::json, $15, $16, $17,
    $18, $19, $20, $21, ${waitingMax}, ${laneMax}, $22::jsonb, $23, $24, $25, $26, $27)`

/** As `claimRuns` would read it now. */
function claimedAtOnce(given: NewRunRow, accepted: Run): ClaimedRun {
  return {
    ...accepted,
    status: 'running',
    attempt: 1,
    startedAt: accepted.createdAt,
    epoch: 1,
    message: given.message,
    messageAuthor: given.messageAuthor ?? null,
    streaming: given.streaming,
    stateDelta: given.stateDelta ?? null,
    customMetadata: given.customMetadata ?? null,
    traceparent: given.traceparent ?? null,
    deadline: given.deadline ?? null,
    elapsedMs: 0,
    leftMs: given.deadline ? given.deadline.getTime() - accepted.createdAt.getTime() : null,
    // The dispatcher notes there who joins.
    joined: [],
    skipped: [],
  }
}

/** As it was accepted: queued. */
function acceptedRun(
  run: NewRunRow,
  { rootRunId, createdAt, userUid }: Pick<Run, 'rootRunId' | 'createdAt' | 'userUid'>,
): Run {
  const { runId, slug, agent, userId, sessionId, trigger, callerUid, requestId } = run
  return {
    runId,
    slug,
    agent,
    userId,
    userUid,
    sessionId,
    status: 'queued',
    trigger,
    parentRunId: run.parentRunId ?? null,
    rootRunId,
    goalId: run.goalId ?? null,
    depth: run.depth ?? 0,
    attempt: 0,
    error: null,
    joined: [],
    skipped: [],
    summary: null,
    callerUid,
    requestId,
    cancelRequestedAt: null,
    createdAt,
    startedAt: null,
    endedAt: null,
    lastEventId: 0,
  }
}

function headersOf(run: NewRunRow): Record<string, string> {
  return {
    [headerNames.agent]: run.agent,
    ...(run.requestId ? { [headerNames.requestId]: run.requestId } : {}),
    ...(run.traceparent ? { [headerNames.traceparent]: run.traceparent } : {}),
  }
}

function json(value: object | null | undefined): string | null {
  return value ? JSON.stringify(value) : null
}
