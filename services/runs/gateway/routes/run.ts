/** POST /<agent>/run: a message to one agent. */

import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { Type } from 'typebox'
import { callerOf } from '#services/access/callers/caller.ts'
import { callerOfEither } from '#services/access/callers/credentials.ts'
import { idempotencyHeaders, idempotencyProblems } from '#services/access/callers/idempotent.ts'
import { leastAccess } from '#services/access/callers/least-access.ts'
import { endOperation } from '#services/access/limits/limit-rate.ts'
import { readRun } from '../../state/read.ts'
import type { RunGateway } from '../gateway.ts'
import { bodyBytesMax } from '../requests/fields.ts'
import { preferHeaders, wantedBy } from '../requests/prefer.ts'
import { readRunRequest, runRequest } from '../requests/run-request.ts'
import { joinQuery, run, runEvents, streamText } from '../schemas.ts'
import { endOfRun, viewOfRun } from '../views.ts'
import { tellRun } from './headers.ts'
import { type StartedRun, startRun } from './start-run.ts'
import { answerEvents } from './stream.ts'
import { answerWhole } from './whole.ts'

const description = `The agent of the path gets the message in the session of this user; an unknown session is made. Answers the events as Google
ADK's \`/run\` does, once the agent and all that joined it are done; what failed is answered with a problem document that names
the run. With \`Accept: text/event-stream\` or \`streaming: true\` they come as they happen, as a stream (\`text/event-stream\`). A run that takes longer than a minute
is answered 202, and goes on. Runs of one agent, user and session go one after the other.

The headers \`X-Run-Id\`, \`X-Session-Id\`, \`X-User-Id\` (percent-encoded where an id is not visible ASCII) and \`Location\` say which
run it is, whatever becomes of it.

${streamText}`

export function registerRun(scope: FastifyInstance, gateway: RunGateway): void {
  scope.route({
    method: 'POST',
    url: '/:slug/run',
    bodyLimit: bodyBytesMax,
    onRequest: leastAccess('member'),
    config: {
      operation: 'run',
      problems: [
        'forbidden',
        'agent_not_found',
        'app_name_mismatch',
        'user_mismatch',
        'session_busy',
        'session_queue_full',
        'too_many_waiting',
        'too_many_streams',
        'agent_error',
        'node_lost',
        'node_unavailable',
        'run_timeout',
        'run_canceled',
        'run_not_found',
        'too_many_events',
        ...idempotencyProblems,
      ],
    },
    schema: {
      operationId: 'runAgent',
      tags: ['runs'],
      summary: 'Send a message to an agent',
      description,
      params: Type.Object({
        slug: Type.String({ description: 'The agent, in lower case.', examples: ['whale'] }),
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
  const caller = callerOf(request)
  const asked = await readRunRequest(gateway, request, (request.params as { slug: string }).slug)
  const wanted = wantedBy(request, asked.streaming)
  if (wanted.applied !== undefined) reply.header('preference-applied', wanted.applied)
  // Before the run is made: who finds no place starts nothing.
  const place = wanted.stream || wanted.waitMs > 0 ? gateway.places.take(caller.uid) : undefined
  let started: StartedRun
  try {
    started = await startRun(gateway, request, reply, asked)
  } catch (error) {
    place?.release()
    throw error
  }
  const { follow, fresh } = started
  tellRun(reply, started.run)
  if (!place) {
    follow.close()
    return accepted(reply, started)
  }
  if (wanted.stream) {
    const endOf = (value: StartedRun['run'], lastId: number) => ({
      id: String(lastId + 1),
      data: endOfRun(value),
    })
    return answerEvents(gateway.streams, request, reply, { follow, after: 0, fresh, endOf }, { place })
  }
  // From here on it holds its place, not a slot of the caller's concurrency.
  endOperation(request)
  const ended = await gateway.waits.during({ caller, reply, place, waitMs: wanted.waitMs }, (signal) =>
    answerWhole(gateway, reply, started, signal),
  )
  if (ended) return reply
  // A caller whose right ended meanwhile learns nothing more.
  await callerOfEither(gateway, request.headers.authorization)
  const now = await readRun(gateway.relational, started.run.runId)
  return accepted(reply, { run: now ?? started.run })
}

function accepted(reply: FastifyReply, { run: now }: Pick<StartedRun, 'run'>) {
  reply.code(202)
  return viewOfRun(now)
}
