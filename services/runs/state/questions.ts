/**
 * Questions of runs and their answers. A run that asks waits in its row, where no dispatcher holds it; an answer queues the same
 * run again, with the answer as an event of the user in front of what its agent says then.
 */

import type { Relational, SqlExecutor, SqlTransaction } from '#engines/relational/port.ts'
import { AppError } from '#lib/errors.ts'
import { validationFailed } from '#runtime/http/validation.ts'
import { createNote } from '#services/records/notes/notes.ts'
import { platformAuthor } from '#services/records/store/kind.ts'
import { fleetEvents, runsCommands } from '#topics/catalog.ts'
import { originOf } from './accept.ts'
import { wakeDispatchers } from './claims.ts'
import { readRun } from './read.ts'
import type { ClaimedRun, Content, Part, Question, Run } from './types.ts'

interface Asking {
  runId: string
  epoch: number
  question: Question
  summary: string | null
  /** Until the question expires, in seconds. */
  waitS: number
}

interface AskedRow {
  runId: string
  agent: string
  sessionId: string
  attempt: number
  caller: string
  requestId: string | null
  traceparent: string | null
}

/**
 * The held run waits for an answer from now on, with a note to whoever started it and an event of the fleet. False when somebody
 * canceled it, or it is not held under this epoch any more.
 */
export function askBack(relational: Relational, asking: Asking): Promise<boolean> {
  return relational.transaction(async (tx) => {
    const { runId, epoch, question, summary, waitS } = asking
    const { rows } = await tx.query<AskedRow>(
      `update platform.runs r set status = 'input_required', question = $3::json, summary = coalesce($4, r.summary),
         asked_at = clock_timestamp(), expires_at = clock_timestamp() + make_interval(secs => $5::float8),
         asked_attempt = r.attempt, resumed_at = null, input = null, holder = null, lease_until = null, head_at = null,
         not_before = null
       where r.run_id = $1 and r.epoch = $2 and r.status = 'running' and r.cancel_requested_at is null
       returning r.run_id as "runId", r.agent, r.session_id as "sessionId", r.attempt, r.request_id as "requestId",
         r.traceparent, coalesce((select a.agent_id from platform.agents a where a.uid = r.caller_uid), r.caller_uid) as caller`,
      [runId, epoch, JSON.stringify(question), summary, waitS],
    )
    const [asked] = rows
    if (!asked) return hasAsked(tx, asking)
    await sendAsked(tx, asked, question)
    return true
  })
}

/** The answer of an earlier statement was lost. */
async function hasAsked(tx: SqlTransaction, { runId, epoch }: Asking): Promise<boolean> {
  const { rows } = await tx.query(
    `select from platform.runs where run_id = $1 and epoch = $2 and status = 'input_required'`,
    [runId, epoch],
  )
  return rows.length > 0
}

/** The note says nothing of the question: everybody reads notes. */
async function sendAsked(tx: SqlTransaction, asked: AskedRow, question: Question): Promise<void> {
  const { runId, agent, sessionId, attempt, caller } = asked
  const headers = originOf(asked)
  const note = {
    subject: `${agent} waits for an answer of ${caller}`.slice(0, 200).toWellFormed(),
    body:
      `A run that ${caller} started asks back: ${runId} of ${agent}. \`flotilla runs show ${runId}\` shows the question. Answer with ` +
      `\`flotilla runs answer ${runId} TEXT\`, \`--approve\` or \`--refuse\`, or by POST /runs/${runId}/input.`,
    creationKey: `question/${runId}.${attempt}`,
  }
  await createNote(tx, note, platformAuthor, headers)
  const result = JSON.stringify({ runId, sessionId, question })
  await tx.query(
    `insert into platform.outbox (topic, key, event_id, value, headers) values ('${fleetEvents.name}', $1, gen_random_uuid()::text,
       jsonb_build_object('event', 'task.input_required', 'agent', $1::text, 'task_id', $2::text, 'result', $3::text,
         'ts', floor(extract(epoch from clock_timestamp()))::bigint), $4::jsonb)`,
    [agent, `${runId}.${attempt}`, result, JSON.stringify({ agent, ...headers })],
  )
}

export interface RunAnswerGiven {
  runId: string
  message: Content
  /** The id of its event: an answer that is given again under it is the same. */
  answerId: string
}

interface Answerable extends AskedRow {
  slug: string
  rootRunId: string
  goalId: number | null
  answerId: string | null
  answerSeq: number | null
  question: Question
  waits: boolean
}

/**
 * Queues the run again with the answer to its question; events behind `after` follow from it. Throws AppError `run_not_found`,
 * `not_waiting`, and `validation_failed` for a response to a call that it did not ask about.
 */
export async function answerRun(
  relational: Relational,
  given: RunAnswerGiven,
): Promise<{ run: Run; after: number }> {
  const answered = await relational.transaction(async (tx) => {
    const { rows } = await tx.query<Answerable>(
      `select run_id as "runId", slug, agent, session_id as "sessionId", attempt, root_run_id as "rootRunId", goal_id as "goalId",
         request_id as "requestId", traceparent, question, answer_id as "answerId", answer_seq as "answerSeq",
         status = 'input_required' and cancel_requested_at is null and expires_at > clock_timestamp() as waits
       from platform.runs where run_id = $1 for no key update`,
      [given.runId],
    )
    const [asked] = rows
    if (!asked) throw new AppError('run_not_found', 'There is no such run.')
    if (asked.answerId === given.answerId) return { after: asked.answerSeq!, slug: null }
    if (!asked.waits) throw new AppError('not_waiting', 'The run does not wait for an answer.')
    refuseOtherCalls(given.message, asked.question)
    return { after: await storeAnswer(tx, asked, given), slug: asked.slug }
  })
  if (answered.slug !== null) wakeDispatchers(relational, answered.slug)
  return { run: (await readRun(relational, given.runId))!, after: answered.after }
}

/** In the order in which events of runs lock: the run, its tree, its dispatch. Gives the place of the answer. */
async function storeAnswer(
  tx: SqlTransaction,
  { runId, slug, agent, rootRunId, goalId, ...asked }: Answerable,
  { message, answerId }: RunAnswerGiven,
): Promise<number> {
  const event = JSON.stringify({
    content: message,
    id: answerId,
    author: 'user',
    invocationId: runId,
    timestamp: Date.now() / 1000,
  })
  const tree = await tx.query<{ seq: number }>(
    `update platform.run_trees set last_event_id = last_event_id + 1 where root_run_id = $1 returning last_event_id as seq`,
    [rootRunId],
  )
  const { seq } = tree.rows[0]!
  const dispatch = await tx.query<{ seq: number }>(
    `update platform.dispatches set last_event_id = last_event_id + 1 where goal_id = $1 returning last_event_id as seq`,
    [goalId],
  )
  await tx.query(
    `insert into platform.run_events (root_run_id, seq, run_id, goal_id, goal_seq, event) values ($1, $2, $3, $4, $5, $6)`,
    [rootRunId, seq, runId, goalId, dispatch.rows[0]?.seq ?? null, event],
  )
  await tx.query(
    `update platform.runs set status = 'queued', input = $2::json, answer_id = $3, answer_seq = $4, events = events + 1,
       event_bytes = event_bytes + $5
     where run_id = $1`,
    [runId, JSON.stringify(message), answerId, seq, Buffer.byteLength(event)],
  )
  await tx.query(
    `insert into platform.outbox (topic, key, event_id, value, headers) values ('${runsCommands.name}', $1, gen_random_uuid()::text,
       jsonb_build_object('command', 'start', 'run_id', $2::text, 'slug', $1::text), $3::jsonb)`,
    [slug, runId, JSON.stringify({ agent, ...originOf(asked) })],
  )
  return seq
}

interface FunctionResponse {
  id?: unknown
}

function responseOf(part: Part): FunctionResponse | undefined {
  return (part.functionResponse ?? part.function_response ?? undefined) as FunctionResponse | undefined
}

/** The calls that the answer leaves open: those it does not name, where it names some. A text alone answers them all. */
export function leftOpen({ question, input }: ClaimedRun): Question['calls'] {
  const answered = new Set((input?.parts ?? []).map((part) => responseOf(part)?.id))
  const left = question?.calls.filter(({ id }) => !answered.has(id)) ?? []
  return left.length === question?.calls.length ? [] : left
}

function refuseOtherCalls({ parts }: Content, { calls }: Question): void {
  const ids = calls.map(({ id }) => id)
  for (const [n, part] of parts.entries()) {
    const response = responseOf(part)
    if (!response || ids.includes(response.id as string)) continue
    const known = ids.map((id) => id.slice(0, 64).toWellFormed()).join(', ')
    throw validationFailed([
      { path: `/parts/${n}/functionResponse/id`, message: `the id of a call that asks: ${known}` },
    ])
  }
}

interface AskingIn {
  userId: string
  sessionId: string
  /** The agent that the session's messages go to. */
  slug: string
  /** Runs that this caller started, or that are its own. */
  callerUid: string
  /** All agents: those that joined ask, too. */
  slugs: readonly string[]
}

/** The run that asks first among those of the agent in this session, and those that joined them; null: none. */
export async function askingIn(
  executor: SqlExecutor,
  { userId, sessionId, slug, callerUid, slugs }: AskingIn,
): Promise<{ runId: string; question: Question } | null> {
  const { rows } = await executor.query<{ runId: string; question: Question }>(
    // A lane has at most one run that asks, and an index of those that have not ended.
    `select r.run_id as "runId", r.question from unnest($1::text[]) as agent (slug)
     join platform.runs r on r.lane = md5(agent.slug || '/' || length($2) || '/' || $2 || '/' || $3)::uuid
       and r.status = 'input_required' and r.cancel_requested_at is null and r.expires_at > clock_timestamp()
     join platform.runs t on t.run_id = r.root_run_id and t.slug = $4 and (t.caller_uid = $5 or t.user_uid = $5)
     order by r.id limit 1`,
    [[...slugs], userId, sessionId, slug, callerUid],
  )
  return rows[0] ?? null
}

/** The run of this session that was given this answer already; null: none. */
export async function answeredBy(
  executor: SqlExecutor,
  { sessionId, answerId }: { sessionId: string; answerId: string },
): Promise<string | null> {
  const { rows } = await executor.query<{ runId: string }>(
    `select run_id as "runId" from platform.runs where session_id = $1 and trigger <> 'report' and answer_id = $2`,
    [sessionId, answerId],
  )
  return rows[0]?.runId ?? null
}
