/** Begins the answer of a chat completion: the input of a run that asks in the named session, or a new run. */

import { randomUUID } from 'node:crypto'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { answerParts } from '#client/answer-parts.ts'
import { AppError } from '#lib/errors.ts'
import { callerOf } from '#services/access/callers/caller.ts'
import { idempotent, idOfSeed } from '#services/access/idempotency.ts'
import { openFollow } from '../../follow/follow.ts'
import { treeOf } from '../../follow/subjects.ts'
import { answeredBy, answerRun, askingIn } from '../../state/questions.ts'
import { readRun } from '../../state/read.ts'
import type { Part, Question, Run } from '../../state/types.ts'
import type { RunGateway } from '../gateway.ts'
import { acceptAsked } from '../routes/run.ts'
import { startWaitMs } from '../routes/started.ts'
import type { StartedRun } from '../routes/stream.ts'
import type { ChatAsked } from './request.ts'

/** Throws what `acceptRun` throws, and what an Idempotency-Key is refused with. */
export async function beginChat(
  gateway: RunGateway,
  request: FastifyRequest,
  reply: FastifyReply,
  asked: ChatAsked,
): Promise<StartedRun> {
  let made: StartedRun | undefined
  const { runId, after } = await idempotent(
    gateway,
    request,
    reply,
    async (seed) => {
      made = (await goOn(gateway, request, asked, seed)) ?? (await start(gateway, request, asked, seed))
      return { runId: made.run.runId, after: made.after ?? 0 }
    },
    { part: asked.node.slug, waitMs: startWaitMs },
  )
  return made ?? followed(gateway, await keptRun(gateway, runId), after)
}

function start(
  gateway: RunGateway,
  request: FastifyRequest,
  { node, sessionId, message, stream }: ChatAsked,
  seed: string | undefined,
): Promise<StartedRun> {
  const run = {
    node,
    sessionId,
    message,
    userId: callerOf(request).agentId,
    streaming: stream,
    stateDelta: null,
    customMetadata: null,
    metadata: null,
    onBusy: 'enqueue' as const,
    join: true,
  }
  return acceptAsked(gateway, request, run, seed)
}

/** Undefined: no run of the session asks. */
async function goOn(
  gateway: RunGateway,
  request: FastifyRequest,
  { node, sessionId, parts }: ChatAsked,
  seed: string | undefined,
): Promise<StartedRun | undefined> {
  if (sessionId === undefined) return undefined
  const { relational, nodes } = gateway
  const { uid: callerUid, agentId: userId } = callerOf(request)
  const answerId = seed === undefined ? randomUUID() : idOfSeed(seed, 'input')
  // An earlier request under the seed may have given the answer, and died.
  const answered = seed === undefined ? null : await answeredBy(relational, { sessionId, answerId })
  const slugs = nodes.current().nodes.map(({ slug }) => slug)
  const asking =
    answered === null
      ? await askingIn(relational, { userId, sessionId, slug: node.slug, callerUid, slugs })
      : null
  const runId = answered ?? asking?.runId
  if (runId === undefined) return undefined
  const message = { role: 'user', parts: asking ? inputOf(asking.question, parts) : parts }
  try {
    const { run, after } = await answerRun(relational, { runId, message, answerId })
    return followed(gateway, await keptRun(gateway, run.rootRunId), after)
  } catch (error) {
    // Somebody else answered it, or it expired: these words are a message.
    if (error instanceof AppError && error.code === 'not_waiting') return undefined
    throw error
  }
}

function inputOf(question: Question, parts: Part[]): Part[] {
  const [first] = parts
  return parts.length === 1 && typeof first?.text === 'string' ? answerParts(question, first.text) : parts
}

/** The whole tree: any of its agents may speak after the answer. */
function followed(gateway: RunGateway, run: Run, after: number): StartedRun {
  const follow = openFollow(gateway, treeOf(gateway.relational, run.rootRunId))
  return { run, follow, fresh: false, join: true, after }
}

async function keptRun({ relational }: RunGateway, runId: string): Promise<Run> {
  const run = await readRun(relational, runId)
  if (run) return run
  throw new AppError('run_not_found', 'The run of this Idempotency-Key is not kept any more.')
}
