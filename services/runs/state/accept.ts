/**
 * Accepts runs, one row each in the lane of its agent, user and session: with its tree and the record that wakes the dispatchers, in
 * one statement.
 */

import { createHash } from 'node:crypto'
import type { Relational, SqlExecutor } from '#engines/relational/port.ts'
import { AppError } from '#lib/errors.ts'
import { randomHex } from '#lib/ids.ts'
import { headerNames } from '#runtime/publish/messages.ts'
import { type ClaimAtOnce, cancelNotice, type TakeAtOnce, wakeDispatchers } from './claims.ts'
import { cancelWithin, runsBelow } from './end.ts'
import { readRun } from './read.ts'
import { type ClaimedRun, type RunTrigger, spokenText, type WholeRun } from './types.ts'

/** Runs take seconds. */
const retryAfterSeconds = 5
/** Runs of callers that wait in one lane. */
const waitingMax = 10
/** With those that the platform made. */
const laneMax = 200
/** Runs of one caller that wait at one node, in all its lanes. */
const callerWaitingMax = 100

/** What a run may do without, and what it has then. */
const absent = {
  traceparent: null,
  messageAuthor: null,
  stateDelta: null,
  customMetadata: null,
  metadata: null,
  parentRunId: null,
  goalId: null,
  depth: 0,
  deadline: null,
} as const satisfies Partial<ClaimedRun>

type Optional = keyof typeof absent | 'rootRunId'
/** What its acceptance makes. */
type Made =
  | keyof ReturnType<typeof queued>
  | 'userUid'
  | 'createdAt'
  | 'epoch'
  | 'events'
  | 'askedAttempt'
  | 'input'
  | 'answerSeq'
  | 'elapsedMs'
  | 'leftMs'

export interface NewRun extends Omit<ClaimedRun, Made | Optional>, Partial<Pick<ClaimedRun, Optional>> {
  /** While the lane has runs that have not ended; `interrupt` cancels the one at work, or asking. Default enqueue. */
  onBusy?: 'enqueue' | 'reject' | 'interrupt'
}

/** `isNew`: it did not exist before. */
interface Accepted {
  run: WholeRun
  isNew: boolean
}

/**
 * Accepts a run; one that exists under its id is given as it is. With `takeAtOnce` the dispatcher of this process begins at
 * once where nothing else waits. Throws AppError `user_mismatch` when the session has runs of another user of this name,
 * `session_busy` when its lane is and `onBusy` is `reject`, `session_queue_full` when ten runs of callers wait in its lane, or
 * `too_many_waiting` when a hundred of this caller wait at its node.
 */
export async function acceptRun(
  relational: Relational,
  run: NewRun,
  takeAtOnce?: TakeAtOnce,
): Promise<Accepted> {
  // With one session no other commit waits for the notice.
  const notify = relational.driver === 'embedded'
  const atOnce = takeAtOnce?.(run)
  const inserted = await insertRun(relational, run, {
    notify,
    ...(atOnce ? { claim: atOnce.claim } : {}),
  })
  const interrupts = !inserted.run && inserted.refused === 'busy' && run.onBusy === 'interrupt'
  const made = interrupts ? await insertInterrupting(relational, run) : inserted
  if (made.run) {
    if (made.claimed) atOnce?.begin(made.claimed)
    else if (!notify || interrupts) wakeDispatchers(relational, run.slug)
    return { run: made.run, isNew: true }
  }
  const known = await readRun(relational, run.runId)
  if (known) return { run: known, isNew: false }
  throw refusal(made, run.agent)
}

/**
 * Cancels the lane's run that is at work or asks, with all that joined it, and queues the new one behind those that wait already.
 * Rows of runs are locked before the lane, as mentions lock them. Nothing is canceled when the run is refused.
 */
async function insertInterrupting(relational: Relational, run: NewRun): Promise<Inserted> {
  const made = await relational.transaction(async (tx) => {
    const { rows } = await tx.query<{ run_id: string }>(
      `select run_id from platform.runs
       where lane = md5($1 || '/' || length($2) || '/' || $2 || '/' || $3)::uuid and status in ('running', 'input_required')
         and run_id <> $4`,
      [run.slug, run.userId, run.sessionId, run.runId],
    )
    for (const { run_id } of rows) await cancelWithin(tx, runsBelow, run_id, originOf(run), 'interrupted')
    const inserted = await insertRun(tx, { ...run, onBusy: 'enqueue' })
    if (!inserted.run && inserted.refused) throw refusal(inserted, run.agent)
    return inserted
  })
  wakeDispatchers(relational, cancelNotice)
  return made
}

/** Why a run at `agent` was not made. */
export function refusal({ refused, active }: Extract<Inserted, { run: null }>, agent: string): AppError {
  if (refused === 'user') {
    const message =
      'This session belongs to another user of the same name: an agent that had the id before, or a name that was free. Send ' +
      'another sessionId, or none.'
    return new AppError('user_mismatch', message)
  }
  if (refused === 'busy' && active !== null) {
    const message = `The session has a run that has not ended: ${active}.`
    return new AppError('session_busy', message, { members: { activeRunId: active } })
  }
  if (refused === 'caller') {
    const message =
      `${callerWaitingMax} runs of yours wait at ${agent} already, which is the most. Send this one when some have ended, ` +
      `or cancel some: GET /runs?agent=${agent}&status=queued lists them.`
    return new AppError('too_many_waiting', message, { retryAfter: retryAfterSeconds })
  }
  const message = 'Ten runs wait in this session already.'
  return new AppError('session_queue_full', message, { retryAfter: retryAfterSeconds })
}

type Inserted =
  /** `claimed`: under the first epoch; undefined: it waits for a dispatcher. */
  | { run: WholeRun; claimed?: ClaimedRun }
  /** Nothing was written: `refused` says why, null: the run exists. `active` is the lane's run that is to end first. */
  | { run: null; refused: Refused | null; active: string | null }

/** The session is another user's, the lane is busy and the run may not wait, or full, or too many runs of the caller wait. */
type Refused = 'user' | 'busy' | 'lane' | 'caller'

/** A new id of 128 random bits. */
export function newRunId(): string {
  return `run_${randomHex(16)}`
}

/** An id that depends on its parts alone: a run written twice under it is one run. */
export function runIdOf(...parts: string[]): string {
  return `run_${createHash('sha256').update(parts.join('\n')).digest('hex').slice(0, 32)}`
}

/**
 * Inserts the run, unless its session is another user's of the same name, its lane is full, or busy and `onBusy` is `reject` or
 * `interrupt`, or too many runs of its caller wait at the node. Runs of mentions and of the platform itself are refused only by a lane that is far
 * too long, those of the platform by no count of callers. With `claim` it is claimed at once where its lane is free, its node has
 * a free slot and nothing else waits there.
 * `notify` wakes the dispatchers with the commit: only where no other commit waits for it.
 */
export async function insertRun(
  executor: SqlExecutor,
  run: NewRun,
  { notify = false, claim }: { notify?: boolean; claim?: ClaimAtOnce } = {},
): Promise<Inserted> {
  const {
    onBusy,
    message,
    streaming,
    traceparent,
    messageAuthor,
    stateDelta,
    customMetadata,
    deadline,
    ...own
  } = { rootRunId: run.runId, ...absent, ...run }
  const { rows } = await executor.query<{
    made: string | null
    refused: Refused | null
    active: string | null
    accepted_at: Date
    claimed: boolean
    uid: string | null
  }>(statement, [
    own.runId,
    own.slug,
    own.agent,
    own.userId,
    own.sessionId,
    own.trigger,
    own.callerUid,
    own.requestId,
    traceparent,
    json(message),
    messageAuthor,
    streaming,
    json(stateDelta),
    json(customMetadata),
    own.parentRunId,
    own.rootRunId,
    own.goalId,
    own.depth,
    deadline,
    onBusy === 'reject' || onBusy === 'interrupt',
    ofCallers.has(run.trigger),
    JSON.stringify({ [headerNames.agent]: run.agent, ...originOf(run) }),
    notify,
    claim?.holder ?? null,
    claim?.leaseMs ?? null,
    claim?.concurrency ?? null,
    ofPlatform.has(run.trigger) ? null : callerWaitingMax,
    json(own.metadata),
  ])
  const { made, refused, active, accepted_at: createdAt, claimed, uid: userUid } = rows[0]!
  if (made === null) return { run: null, refused, active }
  const text = message && spokenText(message)
  const accepted = { ...own, ...queued(), createdAt, userUid, message, text }
  if (!claimed) return { run: accepted }
  // As `claimRuns` would read it now. The dispatcher notes in it who joins.
  const given = { message, streaming, traceparent, messageAuthor, stateDelta, customMetadata, deadline }
  const leftMs = deadline && deadline.getTime() - createdAt.getTime()
  const running = {
    status: 'running',
    attempt: 1,
    startedAt: createdAt,
    epoch: 1,
    events: 0,
    askedAttempt: 0,
    input: null,
    answerSeq: null,
    elapsedMs: 0,
    leftMs,
  } as const
  return { run: accepted, claimed: { ...accepted, ...queued(), ...given, ...running } }
}

/** What runs have in common that wait for their first start. */
function queued() {
  return {
    status: 'queued' as const,
    attempt: 0,
    error: null,
    question: null,
    askedAt: null,
    expiresAt: null,
    joined: [],
    skipped: [],
    summary: null,
    cancelRequestedAt: null,
    startedAt: null,
    endedAt: null,
    lastEventId: 0,
  }
}

/** Limited by how many of theirs wait. */
const ofCallers: ReadonlySet<RunTrigger> = new Set(['api', 'schedule', 'dispatch'])
/** Made for callers by the platform, a few for each of their own runs. */
const ofPlatform: ReadonlySet<RunTrigger> = new Set(['synthesis', 'report'])

/** A run that begins in a session takes its lock first. */
const statement = `select made, refused, active, accepted_at, claimed, uid
  from (select $1::text || case when $16::text = $1::text then platform.lock_session($4, $5) else '' end as id offset 0) locked
  cross join lateral platform.accept_run(locked.id, $2, $3, $4, $5, $6, $7, $8, $9, $10::json, $11, $12, $13::json, $14::json, $15, $16, $17,
    $18, $19, $20, $21, ${waitingMax}, ${laneMax}, $22::jsonb, $23, $24, $25, $26, $27, $28::jsonb)`

/** The headers of records that follow from a request. */
export function originOf({
  requestId,
  traceparent,
}: Pick<NewRun, 'requestId' | 'traceparent'>): Record<string, string> {
  return {
    ...(requestId ? { [headerNames.requestId]: requestId } : {}),
    ...(traceparent ? { [headerNames.traceparent]: traceparent } : {}),
  }
}

function json(value: object | null | undefined): string | null {
  return value ? JSON.stringify(value) : null
}
