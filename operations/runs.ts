/** Runs and dispatches, as operators start, list, read and cancel them. */

import { randomUUID } from 'node:crypto'
import { type Static, Type } from 'typebox'
import { answerParts } from '#client/answer-parts.ts'
import type { Relational } from '#engines/relational/port.ts'
import { AppError } from '#lib/errors.ts'
import { wakeOutbox } from '#runtime/notices.ts'
import { checkedId, checkedMessage, checkedMetadata } from '#services/runs/gateway/requests.ts'
import { viewOfDispatch, viewOfRun, viewOfWholeRun } from '#services/runs/gateway/views.ts'
import { createConnections, createProbeNode } from '#services/runs/nodes/adk/connections.ts'
import { loadNodes, NodeFault, type NodeSet, type RunNode } from '#services/runs/nodes/nodes.ts'
import { acceptRun, newRunId } from '#services/runs/state/accept.ts'
import { acceptDispatch, cancelDispatch, readDispatch, runsForAll } from '#services/runs/state/dispatches.ts'
import { cancelRun } from '#services/runs/state/end.ts'
import { readNodeStates } from '#services/runs/state/node-rows.ts'
import { answerRun } from '#services/runs/state/questions.ts'
import { listRuns, readEvents, readRun } from '#services/runs/state/read.ts'
import {
  type Content,
  type Run,
  runStatuses,
  type StoredEvent,
  type WholeRun,
} from '#services/runs/state/types.ts'
import { defineAction } from './action.ts'
import { defineOperation, type OperatedPlatform, type OperationContext } from './operation.ts'
import { listPages, operator } from './operator.ts'

/** Shown at once; the stream of the gateway has all. */
const eventsMax = 1_000
export type RunView = ReturnType<typeof viewOfRun>
export type WholeRunView = ReturnType<typeof viewOfWholeRun>
export type DispatchView = ReturnType<typeof viewOfDispatch>

const text = Type.Optional(Type.String({ minLength: 1 }))
const file = Type.Object({ mimeType: Type.String(), data: Type.String(), displayName: Type.String() })
const messageArgs = {
  text: Type.String(),
  /** `data` is base64. */
  files: Type.Optional(Type.Array(file, { maxItems: 100 })),
  userId: text,
  sessionId: text,
}

export const startRunOperation = defineAction({
  name: 'runs start',
  summary: 'Send a message to an agent',
  change: { action: 'run.create', target: ({ agent }) => agent },
  args: Type.Object({
    agent: Type.String(),
    ...messageArgs,
    streaming: Type.Optional(Type.Boolean()),
    /** A message that is sent again under its id is the same run. */
    runId: Type.Optional(Type.String({ pattern: '^run_[0-9a-f]{32}$' })),
  }),
  async run(context, { agent, streaming = false, runId = newRunId(), ...given }): Promise<RunView> {
    const { env, engines } = context.platform
    const { slug, codename } = nodeNamed(loadNodes(env), agent)
    const { run } = await acceptRun(engines.relational, {
      runId,
      slug,
      agent: codename,
      ...addressOf(given),
      trigger: 'api',
      callerUid: operator.uid,
      requestId: context.requestId ?? null,
      message: messageOf(given),
      streaming,
    })
    context.describe({ target: run.runId })
    await wakeOutbox(engines.relational)
    return viewOfRun(run)
  },
})

export const startDispatchOperation = defineAction({
  name: 'dispatch',
  summary: 'Send a message to all agents',
  change: { action: 'dispatch.create', target: () => 'goal' },
  args: Type.Object(messageArgs),
  async run(context, given): Promise<DispatchView> {
    const { env, engines } = context.platform
    const message = messageOf(given)
    const runs = runsForAll(loadNodes(env), newRunId)
    if (runs.length === 0) throw new AppError('node_unavailable', 'The nodes file names no agent.')
    const dispatch = await acceptDispatch(engines.relational, {
      ...addressOf(given),
      message,
      callerUid: operator.uid,
      author: operator,
      requestId: context.requestId ?? null,
      creationKey: randomUUID(),
      runs,
    })
    context.describe({ target: `goal/${dispatch.goalId}` })
    await wakeOutbox(engines.relational)
    return viewOfDispatch(dispatch)
  },
})

const listArgs = Type.Object({
  agent: text,
  status: Type.Optional(Type.Enum(runStatuses)),
  userId: text,
  sessionId: text,
  metadata: Type.Optional(Type.Record(Type.String(), Type.String())),
  goalId: Type.Optional(Type.Integer({ minimum: 1 })),
  /** Reports to the orchestrator, too. */
  all: Type.Optional(Type.Boolean()),
  limit: Type.Optional(Type.Integer({ minimum: 1, maximum: 1_000 })),
})

export const listRunsOperation = defineOperation({
  name: 'runs list',
  args: listArgs,
  /** Items are pages before the last. */
  async run(
    { platform, output }: OperationContext<RunView[]>,
    { limit: most = 100, all = false, metadata, ...filters }: Static<typeof listArgs>,
  ): Promise<{ runs: RunView[] }> {
    const given = checkedMetadata(metadata)
    const runs = await listPages(output, most, async (limit, before: number | undefined) => {
      const from = before === undefined ? {} : { before }
      const page = await listRuns(platform.engines.relational, {
        own: null,
        ...filters,
        ...(given ? { metadata: given } : {}),
        limit,
        ...from,
      })
      const shown = page.runs.filter(({ trigger }) => all || trigger !== 'report')
      return { rows: shown.map(viewOfRun), next: page.next }
    })
    return { runs }
  },
})

export type ShownRun = { run: WholeRunView; events: StoredEvent[] } | { dispatch: DispatchView }

export const showRunOperation = defineOperation({
  name: 'runs show',
  /** Id of a run, or the number of a dispatch. */
  args: Type.Object({ id: Type.String() }),
  /** Items are events before the last ones. */
  async run(context: OperationContext<StoredEvent[]>, { id }): Promise<ShownRun> {
    const { output } = context
    const { relational } = context.platform.engines
    const goalId = goalIdOf(id)
    if (goalId !== undefined) return { dispatch: viewOfDispatch(await dispatchOf(relational, goalId)) }
    const run = await runOf(relational, id)
    const { rootRunId } = run
    // A root shows all that joined it; a run that joined, its own part.
    const own = run.runId === rootRunId ? {} : { runId: run.runId }
    const events = await listPages(output, eventsMax, async (limit, after: number = 0) => {
      const rows = await readEvents(relational, { rootRunId, after, limit, ...own })
      return { rows, next: rows.at(-1)?.seq }
    })
    return { run: await explainedRun(context, run), events }
  },
})

export const cancelRunOperation = defineAction({
  name: 'runs cancel',
  summary: 'Cancel it, with all that joined it',
  change: { action: 'run.cancel', target: ({ id }) => id },
  /** Id of a run, or the number of a dispatch. */
  args: Type.Object({ id: Type.String() }),
  async run({ platform }, { id }): Promise<{ run: RunView } | { dispatch: DispatchView }> {
    const { relational } = platform.engines
    const goalId = goalIdOf(id)
    const canceled =
      goalId === undefined
        ? { run: viewOfRun(await cancelRun(relational, id)) }
        : { dispatch: viewOfDispatch(await cancelDispatch(relational, goalId)) }
    await wakeOutbox(relational)
    return canceled
  },
})

export const answerRunOperation = defineAction({
  name: 'runs answer',
  summary: 'Answer the question of a run, which goes on with it',
  change: { action: 'run.input', target: ({ id }) => id },
  /** Either a text, or whether it is approved. */
  args: Type.Object({
    id: Type.String(),
    text,
    approve: Type.Optional(Type.Boolean()),
    /** An answer that is sent again under its id is the same answer. */
    answerId: text,
  }),
  async run({ platform }, given): Promise<{ run: RunView; after: number }> {
    const { id, approve, answerId = randomUUID() } = given
    const { relational } = platform.engines
    const { question } = await runOf(relational, id)
    if (!question) throw new AppError('not_waiting', 'The run does not wait for an answer.')
    const words = given.text ?? (approve ? 'approve' : 'refuse')
    const parts = answerParts(question, words)
    if (given.text === undefined && parts.some((part) => !part.functionResponse)) {
      throw new AppError('bad_request', 'The run asks for no approval: answer it with a text.')
    }
    const message = checkedMessage({ role: 'user', parts }, 'text')
    const { run, after } = await answerRun(relational, { runId: id, message, answerId })
    await wakeOutbox(relational)
    return { run: viewOfRun(run), after }
  },
})

/** Throws AppError `run_not_found`. */
export async function runOf(relational: Relational, id: string) {
  const run = await readRun(relational, id)
  if (!run) throw new AppError('run_not_found', `There is no run ${id.slice(0, 64).toWellFormed()}.`)
  return run
}

/** Throws AppError `dispatch_not_found`. */
export async function dispatchOf(relational: Relational, goalId: number) {
  const dispatch = await readDispatch(relational, goalId)
  if (!dispatch) throw new AppError('dispatch_not_found', `There is no dispatch ${goalId}.`)
  return dispatch
}

/**
 * Why the node of an agent does not take its runs now; null where it answers, and where the file does not name it. For
 * operators, who may know its host; its path and headers may hold secrets.
 */
export async function nodeFault(
  { env, engines }: OperatedPlatform,
  agent: string,
  signal: AbortSignal,
): Promise<string | null> {
  const node = loadNodes(env).byCodename(agent)
  if (!node) return null
  const states = await readNodeStates(engines.relational)
  if (states.some(({ slug, status }) => slug === node.slug && status === 'up')) return null
  try {
    await createProbeNode(createConnections())(node, signal)
    return null
  } catch (error) {
    if (!(error instanceof NodeFault)) throw error
    return error.message.replace(/^The node/, `its node at ${new URL(node.url).host}`).replace(/\.$/, '')
  }
}

/** The error of a run; where no node took it, with the fault of the node. */
export async function explainedError(
  { platform, signal }: Pick<OperationContext, 'platform' | 'signal'>,
  { agent, error }: Pick<Run, 'agent' | 'error'>,
): Promise<Run['error']> {
  if (error?.code !== 'node_unavailable') return error
  const fault = await nodeFault(platform, agent, signal)
  return fault === null ? error : { ...error, message: `${error.message.replace(/\.$/, '')}: ${fault}.` }
}

export async function explainedRun(
  context: Pick<OperationContext, 'platform' | 'signal'>,
  run: WholeRun,
): Promise<WholeRunView> {
  return { ...viewOfWholeRun(run), error: await explainedError(context, run) }
}

/** Undefined for what is no number. */
export function goalIdOf(id: string): number | undefined {
  return /^\d{1,15}$/.test(id) ? Number(id) : undefined
}

/** By codename or slug, in any case. */
function nodeNamed(nodes: NodeSet, name: string): RunNode {
  const node = nodes.bySlug(name.toLowerCase()) ?? nodes.byCodename(name)
  if (node) return node
  const known = nodes.nodes.map(({ codename }) => codename).join(', ') || 'none'
  throw new AppError(
    'agent_not_found',
    `The nodes file names no agent ${name.slice(0, 64).toWellFormed()}; it names: ${known}.`,
  )
}

function messageOf({ text: given, files = [] }: { text: string; files?: Static<typeof file>[] }): Content {
  if (files.length === 0) return checkedMessage(given, 'text')
  const parts = [{ text: given }, ...files.map((inlineData) => ({ inlineData }))]
  return checkedMessage({ parts }, 'message')
}

function addressOf({ userId, sessionId }: { userId?: string; sessionId?: string }) {
  return {
    userId: checkedId(userId, 'userId') ?? operator.uid,
    sessionId: checkedId(sessionId, 'sessionId') ?? randomUUID(),
  }
}
