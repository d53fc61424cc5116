/** /openai/models and /openai/chat/completions: agents as the models of OpenAI's API, for any chat window. */

import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { Type } from 'typebox'
import type { ErrorCode } from '#lib/errors.ts'
import { callerOf } from '#services/access/callers/caller.ts'
import { leastAccess } from '#services/access/callers/credentials.ts'
import { idempotencyHeaders } from '#services/access/idempotency.ts'
import type { RunGateway } from '../gateway.ts'
import { bodyBytesMax, nodeNamed } from '../requests.ts'
import { runProblems, startProblems } from '../routes/run.ts'
import { tellStarted } from '../views.ts'
import { streamChat, wholeChat, wholeWaitMs } from './answer.ts'
import { beginChat } from './begin.ts'
import { openAiProblems } from './problems.ts'
import { chatRequest, readChatRequest } from './request.ts'
import { chatCompletion, model, models, viewOfModel } from './views.ts'

const tags = ['chat windows']

const description = `For clients of OpenAI’s API, with \`…/openai\` as their base URL. The last message of a user goes to the agent. Where the header
\`X-Session-Id\`, or \`user\`, names a session, the agent knows its earlier messages, and only the last one is sent; without both the other
messages go along as text, in a new session. What agents say that join is in the answer behind their name.

A question of an agent is its answer. In a named session the next message is the input of the run that asks: \`approve\`, \`yes\`, \`refuse\` or
\`no\` alone answers an approval. Without a session the run is canceled once its question was shown.

With \`stream\` the answer comes as chunks (\`text/event-stream\`), the last one is \`[DONE]\`; a run that fails ends it with an \`error\`. A run goes
on when its caller leaves; the header \`X-Run-Id\` names it. A whole answer that takes longer than ${wholeWaitMs / 60_000} minutes is \`run_timeout\`, and its run
goes on. After a run began \`X-Should-Retry: false\` keeps the clients from starting it again by themselves. Faults are in OpenAI’s form.`

const problems: readonly ErrorCode[] = [...startProblems, 'too_many_streams', ...runProblems]

export function registerOpenAi(scope: FastifyInstance, gateway: RunGateway): void {
  const { nodes } = gateway
  const problemForm = openAiProblems
  scope.route({
    method: 'GET',
    url: '/openai/models',
    config: { problems: [], problemForm },
    schema: {
      operationId: 'listChatModels',
      tags,
      summary: 'List the agents as models',
      response: { 200: models },
    },
    handler: async () => ({ object: 'list', data: nodes.current().nodes.map(viewOfModel) }),
  })
  scope.route({
    method: 'GET',
    url: '/openai/models/:model',
    config: { problems: ['agent_not_found'], problemForm },
    schema: {
      operationId: 'getChatModel',
      tags,
      summary: 'Show an agent as a model',
      params: Type.Object({
        model: Type.String({ description: 'Codename or slug, in any case.', examples: ['WHALE'] }),
      }),
      response: { 200: model },
    },
    handler: async ({ params }) =>
      viewOfModel(nodeNamed(nodes.current(), (params as { model: string }).model)),
  })
  scope.route({
    method: 'POST',
    url: '/openai/chat/completions',
    bodyLimit: bodyBytesMax,
    onRequest: leastAccess('member'),
    config: { operation: 'run', problems: [...problems], problemForm },
    schema: {
      operationId: 'createChatCompletion',
      tags,
      summary: 'Send the last message of a chat to an agent',
      description,
      headers: Type.Object({
        ...idempotencyHeaders.properties,
        'x-session-id': Type.Optional(
          Type.String({ description: 'Names the session. Default: `user`, else a new one.' }),
        ),
      }),
      body: chatRequest,
      response: { 200: chatCompletion },
    },
    handler: (request, reply) => complete(gateway, request, reply),
  })
}

async function complete(gateway: RunGateway, request: FastifyRequest, reply: FastifyReply) {
  const asked = readChatRequest(gateway, request)
  // Before it starts: who finds no place starts nothing.
  const place = gateway.places.take(callerOf(request).uid)
  try {
    const started = await beginChat(gateway, request, reply, asked)
    reply.header('x-run-id', started.run.runId)
    tellStarted(reply, `/runs/${started.run.runId}`, started.run)
    const chat = { gateway, request, reply, asked, started, place }
    return asked.stream ? streamChat(chat) : await wholeChat(chat)
  } catch (error) {
    place.release()
    throw error
  }
}
