/** POST /runs/{runId}/input: the answer to the question of a run, which goes on with it. */

import { randomUUID } from 'node:crypto'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { Type } from 'typebox'
import type { ErrorCode } from '#lib/errors.ts'
import { callerOf } from '#services/access/callers/caller.ts'
import { leastAccess } from '#services/access/callers/credentials.ts'
import {
  idempotencyHeaders,
  idempotencyProblems,
  idempotent,
  idOfSeed,
} from '#services/access/idempotency.ts'
import { openFollow } from '../../follow/follow.ts'
import { treeOf } from '../../follow/subjects.ts'
import { answerRun as storeAnswer } from '../../state/questions.ts'
import { readRun } from '../../state/read.ts'
import type { Run } from '../../state/types.ts'
import type { RunGateway, RunParts } from '../gateway.ts'
import { runFor } from '../owned.ts'
import { bodyBytesMax, inputRequest, readInputRequest } from '../requests.ts'
import { run, runEvents, streamText, viewOfRun } from '../views.ts'
import { answerRun, preferHeaders, runProblems } from './run.ts'
import { startWaitMs } from './started.ts'
import type { StartedRun } from './stream.ts'

const description = `The run must be \`input_required\`; whoever may see it may answer. The same run goes on at its node, and may ask again. A
\`functionResponse\` names the id of a call of \`question\`; all else goes as text. With an Idempotency-Key header a repeated answer
continues the run once. The answer has the events behind it, as that of a message to an agent.

${streamText}`

const inputProblems: readonly ErrorCode[] = [
  'forbidden',
  'run_not_found',
  'not_waiting',
  ...idempotencyProblems,
]
const params = Type.Object({ runId: Type.String({ description: 'Its id.', maxLength: 128 }) })

export function registerInput(scope: FastifyInstance, gateway: RunGateway): void {
  scope.route({
    method: 'POST',
    url: '/runs/:runId/input',
    bodyLimit: bodyBytesMax,
    onRequest: leastAccess('member'),
    config: { operation: 'run.input', problems: [...inputProblems, 'too_many_streams', ...runProblems] },
    schema: {
      operationId: 'answerRun',
      tags: ['runs'],
      summary: 'Answer the question of a run',
      description,
      params,
      headers: Type.Object({ ...idempotencyHeaders.properties, ...preferHeaders.properties }),
      body: inputRequest,
      response: { 200: runEvents, 202: run },
    },
    handler: (request, reply) =>
      answerRun(gateway, request, reply, false, () => goOn(gateway, request, reply)),
  })
}

/** The same for interfaces where answers are read later. */
export function registerInputLater(scope: FastifyInstance, parts: RunParts): void {
  scope.route({
    method: 'POST',
    url: '/runs/:runId/input',
    bodyLimit: bodyBytesMax,
    onRequest: leastAccess('member'),
    config: { operation: 'run.input', problems: [...inputProblems] },
    schema: {
      operationId: 'answerRun',
      tags: ['runs'],
      summary: 'Answer the question of a run',
      description:
        'The run must be `input_required`; the same run goes on, and the answer is the run at once. With an Idempotency-Key header ' +
        'a repeated answer continues the run once.',
      params,
      headers: idempotencyHeaders,
      body: inputRequest,
      response: { 202: run },
    },
    async handler(request, reply) {
      const answered = await answer(parts, request, reply)
      reply.code(202)
      return viewOfRun(answered.run)
    },
  })
}

/** The run as it goes on, followed from the answer. */
async function goOn(gateway: RunGateway, request: FastifyRequest, reply: FastifyReply): Promise<StartedRun> {
  const { run: found, after } = await answer(gateway, request, reply)
  const join = found.runId === found.rootRunId
  const subject = treeOf(gateway.relational, found.rootRunId, join ? undefined : found.runId)
  return { run: found, follow: openFollow(gateway, subject), fresh: false, join, after }
}

async function answer(parts: RunParts, request: FastifyRequest, reply: FastifyReply) {
  const { runId } = request.params as { runId: string }
  const message = readInputRequest(request)
  const found = await runFor(parts.relational, callerOf(request), runId)
  let made: { run: Run; after: number } | undefined
  const { after } = await idempotent(
    parts,
    request,
    reply,
    async (seed) => {
      const answerId = seed === undefined ? randomUUID() : idOfSeed(seed, 'input')
      made = await parts.change(request, { action: 'run.input', target: runId }, () =>
        storeAnswer(parts.relational, { runId, message, answerId }),
      )
      return { after: made.after }
    },
    { part: runId, waitMs: startWaitMs },
  )
  const now = made?.run ?? (await readRun(parts.relational, runId)) ?? found
  // The events that follow from the answer are those behind it, also where some came meanwhile.
  return { run: { ...now, lastEventId: after }, after }
}
