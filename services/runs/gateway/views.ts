/** What callers see of runs and dispatches: schemas, answers, headers, and the frame that ends every stream. */

import type { FastifyReply } from 'fastify'
import { type TProperties, type TSchema, Type } from 'typebox'
import { AppError, type ErrorCode } from '#lib/errors.ts'
import {
  type Dispatch,
  dispatchStatuses,
  type Run,
  runStatuses,
  runTriggers,
  type WholeRun,
} from '../state/types.ts'

const orNull = (schema: TSchema, description?: string) =>
  Type.Union([schema, Type.Null()], description === undefined ? {} : { description })

const time = Type.String({ format: 'date-time', examples: ['2026-01-31T12:00:00.000Z'] })
export const status = Type.Enum([...runStatuses], { type: 'string', title: 'RunStatus' })
const trigger = Type.Enum([...runTriggers], {
  type: 'string',
  title: 'RunTrigger',
  description: '`mention`: an agent or a message named it; `synthesis`: the end of a dispatch.',
})

const runError = Type.Object(
  {
    code: Type.String({ description: 'As in problem documents: `agent_error`, `node_lost`, …' }),
    message: Type.String(),
    retryable: Type.Boolean({ description: 'False: what the run did may have had effects.' }),
  },
  { title: 'RunError' },
)

const question = Type.Object(
  {
    calls: Type.Array(
      Type.Object({
        id: Type.String(),
        name: Type.String({ description: 'The tool; `adk_request_confirmation` asks for an approval.' }),
        args: Type.Optional(Type.Any({ description: 'Absent where they are too long.' })),
      }),
      { description: 'A `functionResponse` with the id of one answers it.' },
    ),
    text: Type.String({ description: 'The words of the agent.' }),
    askedAt: time,
    expiresAt: time,
  },
  { title: 'Question' },
)

export const run = Type.Object(
  {
    runId: Type.String(),
    appName: Type.String({ description: 'The codename of the agent.' }),
    userId: Type.String(),
    sessionId: Type.String(),
    status,
    trigger,
    parentRunId: orNull(Type.String(), 'The run whose message named the agent.'),
    rootRunId: Type.String(),
    goalId: orNull(Type.Integer(), 'Of the dispatch.'),
    depth: Type.Integer({ description: 'Mentions between the first message and this run.' }),
    attempt: Type.Integer({ description: '0 while it waits.' }),
    error: orNull(runError, 'Why it failed.'),
    joined: Type.Array(Type.Object({ agent: Type.String(), runId: Type.String() }), {
      description: 'Agents that this run, or its message, named.',
    }),
    skipped: Type.Array(
      Type.Object({
        agent: Type.String(),
        reason: Type.String(),
        count: Type.Optional(Type.Integer({ description: 'So many names, of which none is listed.' })),
      }),
      {
        description:
          'Those that were named and did not join: unknown, depth, fan_out, pair, budget or queue_full.',
      },
    ),
    metadata: Type.Record(Type.String(), Type.String(), { description: 'As its caller gave it.' }),
    question: orNull(question, 'While it is input_required.'),
    createdAt: time,
    startedAt: orNull(time),
    endedAt: orNull(time),
    cancelRequestedAt: orNull(time),
    lastEventId: Type.Integer({ description: 'The number of the last event of its root run.' }),
    message: orNull(
      Type.String(),
      'The text of its message, in lists the first 200 characters. Null: it has none, as reports.',
    ),
    parts: Type.Optional(
      orNull(Type.Array(Type.Any()), 'Its message as it was sent, where the run is shown alone.'),
    ),
  },
  { title: 'Run', description: 'A run.' },
)

export const runs = Type.Array(run, { title: 'Runs', description: 'The newest first.' })

export const dispatch = Type.Object(
  {
    goalId: Type.Integer({ description: 'The id of the goal at the hub.' }),
    userId: Type.String(),
    sessionId: Type.String(),
    status: Type.Enum([...dispatchStatuses], {
      type: 'string',
      title: 'DispatchStatus',
      description: 'Once all runs have ended: completed when all were, partial when some were.',
    }),
    counts: Type.Object({
      total: Type.Integer(),
      ...Object.fromEntries(runStatuses.map((one) => [one, Type.Integer()])),
    } as TProperties),
    deadline: time,
    runs: Type.Array(
      Type.Object({
        runId: Type.String(),
        agent: Type.String(),
        status,
        error: orNull(runError),
      }),
      { description: 'One for every agent but the orchestrator.' },
    ),
    result: orNull(Type.String(), 'The conclusion of the orchestrator.'),
  },
  { title: 'Dispatch', description: 'A dispatch.' },
)

/** Events of ADK. Only what the gateway sets is named. */
export const runEvents = Type.Array(
  Type.Object(
    {
      id: Type.String(),
      author: Type.String({ description: 'The codename of the agent.' }),
      invocationId: Type.String({ description: 'The id of the run.' }),
      timestamp: Type.Number({ description: 'In seconds.' }),
      content: Type.Optional(Type.Any({ description: 'Role and parts.' })),
      partial: Type.Optional(
        Type.Boolean({ description: 'A piece of a text that comes as a whole later; in streams alone.' }),
      ),
      customMetadata: Type.Optional(Type.Any()),
      errorCode: Type.Optional(Type.String()),
      errorMessage: Type.Optional(Type.String()),
    },
    { title: 'RunEvent', additionalProperties: true },
  ),
  { title: 'RunEvents', description: 'The events of the agent and of those that joined it, in order.' },
)

export const eventStream = (description: string) => ({
  content: { 'text/event-stream': { schema: Type.String({ title: 'RunEventStream' }) } },
  title: 'RunEventStream',
  description,
})

export const streamText =
  'Server-sent events. Each is an event of ADK. What is kept has an id: 1, 2, 3 … over the whole tree of the root run; pieces ' +
  'of texts (`partial`) have none, and their text comes again as a whole. The last one has the author `gateway` and ' +
  '`customMetadata.run`: a stream that ends without it was broken. Where a run waits for an answer (`input_required`) such an event ' +
  'comes without an id, and the answers to a message and to an input end there. Send `Last-Event-ID`, or `?after=`, to go on behind an event.'

export const joinQuery = Type.Optional(
  Type.Enum(['true', 'false'], {
    type: 'string',
    description: '`false`: only the events of the addressed agent, not of those that joined.',
  }),
)

export function viewOfRun(run: Run) {
  return {
    runId: run.runId,
    appName: run.agent,
    userId: run.userId,
    sessionId: run.sessionId,
    status: run.status,
    trigger: run.trigger,
    parentRunId: run.parentRunId,
    rootRunId: run.rootRunId,
    goalId: run.goalId,
    depth: run.depth,
    attempt: run.attempt,
    error: run.error,
    joined: run.joined,
    skipped: run.skipped,
    metadata: run.metadata ?? {},
    question: viewOfQuestion(run),
    createdAt: run.createdAt.toISOString(),
    startedAt: run.startedAt?.toISOString() ?? null,
    endedAt: run.endedAt?.toISOString() ?? null,
    cancelRequestedAt: run.cancelRequestedAt?.toISOString() ?? null,
    lastEventId: run.lastEventId,
    message: run.text,
  }
}

function viewOfQuestion({ status, question, askedAt, expiresAt }: Run) {
  if (status !== 'input_required' || !question || !askedAt || !expiresAt) return null
  return { ...question, askedAt: askedAt.toISOString(), expiresAt: expiresAt.toISOString() }
}

/** As `viewOfRun`, with the parts of its message. */
export function viewOfWholeRun(run: WholeRun) {
  return { ...viewOfRun(run), parts: run.message?.parts ?? null }
}

export function viewOfDispatch(dispatch: Dispatch) {
  const { goalId, userId, sessionId, status, deadline, result, runs } = dispatch
  const counted = runStatuses.map((one) => [one, runs.filter((run) => run.status === one).length])
  return {
    goalId,
    userId,
    sessionId,
    status,
    counts: { total: runs.length, ...Object.fromEntries(counted) },
    deadline: deadline.toISOString(),
    runs: runs.map(({ runId, agent, status: ofRun, error }) => ({ runId, agent, status: ofRun, error })),
    result,
  }
}

/** An event of ADK without content: its clients show nothing, ours know the end, or a question, from a break. */
export function endOfRun(run: Run) {
  const failure = failureOf(run)
  return {
    ...frame(run.runId, run.endedAt),
    customMetadata: { run: viewOfRun(run) },
    ...(failure ? { errorCode: failure.code, errorMessage: failure.message } : {}),
  }
}

/** As `endOfRun`. */
export function endOfDispatch(dispatch: Dispatch) {
  const id = `dispatch_${dispatch.goalId}`
  return { ...frame(id, dispatch.endedAt), customMetadata: { dispatch: viewOfDispatch(dispatch) } }
}

function frame(invocationId: string, endedAt: Date | null) {
  return {
    author: 'gateway',
    invocationId,
    id: `end_${invocationId}`,
    timestamp: (endedAt?.getTime() ?? Date.now()) / 1000,
    turnComplete: true,
    actions: {},
  }
}

/** The problem that a run which has not completed is answered with; undefined for one that has, or has not ended. */
export function failureOf(run: Run): AppError | undefined {
  if (run.status === 'canceled') {
    const { code, message } = run.error ?? { code: 'run_canceled', message: 'The run was canceled.' }
    return problem(run, code, message, true)
  }
  if (run.status !== 'failed') return undefined
  const { code, message, retryable } = run.error ?? {
    code: 'agent_error',
    message: 'The run failed.',
    retryable: false,
  }
  return problem(run, code, message, retryable)
}

function problem(run: Run, code: ErrorCode, message: string, retryable: boolean): AppError {
  const members = { runId: run.runId, sessionId: run.sessionId, retryable }
  return new AppError(code, message, { members, ...(code === 'node_unavailable' ? { retryAfter: 5 } : {}) })
}

/** Says which run or dispatch it is, whatever becomes of it. */
export function tellStarted(
  reply: FastifyReply,
  location: string,
  { sessionId, userId }: Pick<Run, 'sessionId' | 'userId'>,
): void {
  reply.header('location', location)
  reply.header('x-session-id', headerText(sessionId))
  reply.header('x-user-id', headerText(userId))
  reply.header('cache-control', 'no-store')
}

/** Percent-encoded where it has to be, and where it has a percent sign: otherwise two texts would look alike. */
function headerText(text: string): string {
  return /^[\x21-\x24\x26-\x7e]+$/.test(text) ? text : encodeURIComponent(text.toWellFormed())
}
