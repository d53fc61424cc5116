/** POST /<agent>/run, and /runs where that has no place: a message to one agent. */

import { randomUUID } from 'node:crypto'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { Type } from 'typebox'
import { AppError, type ErrorCode } from '#lib/errors.ts'
import { acceptsEvents } from '#runtime/http/event-stream.ts'
import { placeOf } from '#runtime/http/paging.ts'
import { callerOf } from '#services/access/callers/caller.ts'
import { callerOfAny, leastAccess } from '#services/access/callers/credentials.ts'
import {
  idempotencyHeaders,
  idempotencyProblems,
  idempotent,
  idOfSeed,
} from '#services/access/idempotency.ts'
import { endOperation } from '#services/access/limits/limiter.ts'
import { type Follow, openFollow } from '../../follow/follow.ts'
import { treeOf } from '../../follow/subjects.ts'
import { acceptRun, newRunId, runIdOf } from '../../state/accept.ts'
import { readRun } from '../../state/read.ts'
import type { Run } from '../../state/types.ts'
import type { RunGateway, RunParts } from '../gateway.ts'
import { bodyBytesMax, type RunRequest, readRunRequest, runRequest } from '../requests.ts'
import { endOfRun, joinQuery, run, runEvents, streamText, tellStarted, viewOfRun } from '../views.ts'
import { startWaitMs } from './started.ts'
import { answerEvents, answerWhole, type StartedRun } from './stream.ts'

const description = `The agent of the path gets the message in the session of this user; an unknown session is made. Answers the events as Google
ADK's \`/run\` does, once the agent and all that joined it are done; what failed is answered with a problem document that names
the run. With \`Accept: text/event-stream\` or \`streaming: true\` they come as they happen, as a stream (\`text/event-stream\`). A run that takes longer than a minute
is answered 202, and goes on. Runs of one agent, user and session go one after the other.

The headers \`X-Run-Id\`, \`X-Session-Id\`, \`X-User-Id\` (percent-encoded where an id is not visible ASCII) and \`Location\` say which
run it is, whatever becomes of it. Where the agent asks back the answer ends, with \`X-Run-Status: input_required\`, and
\`POST /runs/{runId}/input\` goes on.

${streamText}`

export const startProblems: readonly ErrorCode[] = [
  'forbidden',
  'agent_not_found',
  'user_mismatch',
  'session_busy',
  'session_queue_full',
  'too_many_waiting',
  'run_not_found',
  ...idempotencyProblems,
]

/** How a run may end that was waited for. */
export const runProblems = [
  'agent_error',
  'node_lost',
  'node_unavailable',
  'run_timeout',
  'run_canceled',
  'interrupted',
  'input_expired',
  'too_many_events',
] as const satisfies readonly ErrorCode[]

export function registerRun(scope: FastifyInstance, gateway: RunGateway): void {
  scope.route({
    method: 'POST',
    url: '/:slug/run',
    bodyLimit: bodyBytesMax,
    onRequest: leastAccess('member'),
    config: {
      operation: 'run',
      problems: [...startProblems, 'app_name_mismatch', 'too_many_streams', ...runProblems],
    },
    schema: {
      operationId: 'runAgent',
      tags: ['runs'],
      summary: 'Send a message to an agent',
      description,
      params: Type.Object({
        slug: Type.String({ description: 'The agent, in any case.', examples: ['whale'] }),
      }),
      querystring: Type.Object({ join: joinQuery }),
      headers: Type.Object({ ...idempotencyHeaders.properties, ...preferHeaders.properties }),
      body: runRequest,
      response: {
        200: runEvents,
        202: run,
      },
    },
    handler: (request, reply) => handle(gateway, request, reply),
  })
}

async function handle(gateway: RunGateway, request: FastifyRequest, reply: FastifyReply) {
  const asked = await readRunRequest(gateway, request, (request.params as { slug: string }).slug)
  return answerRun(gateway, request, reply, asked.streaming, () => startRun(gateway, request, reply, asked))
}

/** Starts a run, or lets one go on, and answers with its events, or 202 with the run, as the request wants it. */
export async function answerRun(
  gateway: RunGateway,
  request: FastifyRequest,
  reply: FastifyReply,
  streaming: boolean,
  start: () => Promise<StartedRun>,
) {
  const caller = callerOf(request)
  const wanted = wantedBy(request, streaming)
  if (wanted.applied !== undefined) reply.header('preference-applied', wanted.applied)
  // Before it starts: who finds no place starts nothing.
  const place = wanted.stream || wanted.waitMs > 0 ? gateway.places.take(caller.uid) : undefined
  let started: StartedRun
  try {
    started = await start()
  } catch (error) {
    place?.release()
    throw error
  }
  const { follow, fresh, after = 0 } = started
  reply.header('x-run-id', started.run.runId)
  tellStarted(reply, `/runs/${started.run.runId}`, started.run)
  if (!place) {
    follow.close()
    return accepted(reply, started)
  }
  if (wanted.stream) {
    const events = { follow, after, fresh, endOf: endOfRun, untilAsked: true, place }
    return answerEvents(gateway.streams, request, reply, events)
  }
  // From here on it holds its place, not a slot of the caller's concurrency.
  endOperation(request)
  const ended = await gateway.waits.during({ caller, reply, place, waitMs: wanted.waitMs }, (signal) =>
    answerWhole(gateway, reply, started, signal),
  )
  if (ended) return reply
  // A caller whose right ended meanwhile learns nothing more.
  await callerOfAny(gateway, request)
  const now = await readRun(gateway.relational, started.run.runId)
  return accepted(reply, { run: now ?? started.run })
}

function accepted(reply: FastifyReply, { run: now }: Pick<StartedRun, 'run'>) {
  reply.code(202)
  return viewOfRun(now)
}

/** POST /runs: a message whose answer is read later, for interfaces where `/<agent>/run` has no place. */
export function registerRunCreation(scope: FastifyInstance, parts: RunParts): void {
  scope.route({
    method: 'POST',
    url: '/runs',
    bodyLimit: bodyBytesMax,
    onRequest: leastAccess('member'),
    config: {
      operation: 'run',
      problems: [...startProblems],
    },
    schema: {
      operationId: 'createRun',
      tags: ['runs'],
      summary: 'Send a message to an agent',
      description:
        'To the one that `appName` names, which is required. The answer is the run at once; follow its events. With an ' +
        'Idempotency-Key header a repeated request finds the same run.',
      headers: idempotencyHeaders,
      body: runRequest,
      response: { 202: run },
    },
    async handler(request, reply) {
      const asked = await readRunRequest(parts, request)
      const started = await startRun(parts, request, reply, asked)
      started.follow.close()
      reply.code(202)
      reply.header('location', `${placeOf(request)}/${started.run.runId}`)
      return viewOfRun(started.run)
    },
  })
}

/** Longer waits break at proxies. */
const waitMsMax = 60_000

interface Wanted {
  /** The events as they come. */
  stream: boolean
  /** 0: the answer says that the run was accepted. */
  waitMs: number
  /** What of the header Prefer is followed. */
  applied: string | undefined
}

/** For the schema of a route that follows Prefer. */
export const preferHeaders = Type.Object({
  prefer: Type.Optional(
    Type.String({
      description:
        '`respond-async`: 202 and the run at once. `wait=N`: at most N seconds (60 without it), then 202 and the run (RFC 7240).',
    }),
  ),
})

/** `streaming`: of the body. */
export function wantedBy({ headers }: FastifyRequest, streaming: boolean): Wanted {
  const preferences = listOf(headers.prefer)
  const stream = streaming || acceptsEvents(headers.accept)
  if (preferences.includes('respond-async')) return { stream: false, waitMs: 0, applied: 'respond-async' }
  const wait = preferences.map((one) => /^wait="?(\d{1,6})"?$/.exec(one)?.[1]).find(Boolean)
  if (wait === undefined || stream) return { stream, waitMs: waitMsMax, applied: undefined }
  const seconds = Math.min(Number(wait), waitMsMax / 1_000)
  return { stream, waitMs: seconds * 1_000, applied: `wait=${seconds}` }
}

function listOf(header: string | string[] | undefined): string[] {
  return [header ?? []]
    .flat()
    .flatMap((line) => line.split(/[,;]/))
    .map((one) => one.trim().toLowerCase())
}

/** Throws AppError `session_busy`, `session_queue_full`, `too_many_waiting`, and what an Idempotency-Key is refused with. */
async function startRun(
  parts: RunParts,
  request: FastifyRequest,
  reply: FastifyReply,
  asked: RunRequest,
): Promise<StartedRun> {
  let made: StartedRun | undefined
  const { runId } = await idempotent(
    parts,
    request,
    reply,
    async (seed) => {
      made = await parts.change(request, { action: 'run.create', target: asked.node.slug }, async (notes) => {
        const started = await acceptAsked(parts, request, asked, seed)
        notes?.describe({ target: started.run.runId })
        return started
      })
      return { runId: made.run.runId }
    },
    { part: asked.node.slug, waitMs: startWaitMs },
  )
  if (made) return made
  const run = await readRun(parts.relational, runId)
  if (!run) throw new AppError('run_not_found', 'The run of this Idempotency-Key is not kept any more.')
  return { run, follow: followRun(parts, runId, asked.join), fresh: false, join: asked.join }
}

/** A run of this request, in a new session where it names none. Throws what `acceptRun` throws. */
export async function acceptAsked(
  parts: RunParts,
  request: FastifyRequest,
  asked: RunRequest,
  seed: string | undefined,
): Promise<StartedRun> {
  const { node, join, sessionId, ...given } = asked
  const runId = seed === undefined ? newRunId() : runIdOf('idempotency', seed)
  const newSession = () => (seed === undefined ? randomUUID() : idOfSeed(seed, 'session'))
  const follow = followRun(parts, runId, join)
  try {
    const newRun = {
      ...given,
      runId,
      slug: node.slug,
      agent: node.codename,
      sessionId: sessionId ?? newSession(),
      trigger: 'api' as const,
      callerUid: callerOf(request).uid,
      requestId: request.id,
      traceparent: request.traceparent,
    }
    // Under a seed an earlier request may have made it, and died. Of a new one the rows need not be read, which have no pieces.
    const { run, isNew } = await acceptRun(parts.relational, newRun, parts.local.takeAtOnce)
    return { run, follow, fresh: isNew, join }
  } catch (error) {
    follow.close()
    throw error
  }
}

function followRun(parts: RunParts, runId: string, join: boolean): Follow<Run> {
  const { relational } = parts
  return openFollow(parts, treeOf(relational, runId, join ? undefined : runId))
}
