/** /api/v1/agent-keys: admins issue, list and revoke the keys of agents. */

import type { TypeBoxTypeProvider } from '@fastify/type-provider-typebox'
import type { FastifyInstance } from 'fastify'
import { Type } from 'typebox'
import {
  issueAgentKeyOperation,
  listAgentKeysOperation,
  revokeAgentKeyOperation,
} from '#operations/agent-keys.ts'
import { serverMark } from '#runtime/http/api/facts.ts'
import { closed } from '../envelope.ts'
import type { MainApi } from '../main-api.ts'
import { operate } from '../operate.ts'
import { orNull, time } from '../schemas.ts'

const agentId = Type.String({ minLength: 1, maxLength: 64, examples: ['whale'] })

const fields = {
  id: Type.String({ examples: ['ak_01jd3w7x5m8qk2v9r4t6y0z1ab'] }),
  agent_id: Type.String(),
  label: Type.String(),
  created_at: time,
  last_used_at: orNull(time, 'To the minute; null: never.'),
  revoked_at: orNull(time, 'null: it is live.'),
}

const agentKey = Type.Object(fields, { title: 'AgentKey' })
const issued = Type.Object(
  { ...fields, key: Type.String({ description: 'svc_… : shown here, once, and kept nowhere.' }) },
  { title: 'IssuedAgentKey' },
)
const listed = Type.Object(
  { agent_keys: Type.Array(agentKey, { description: 'The newest first, at most 1000.' }) },
  { title: 'AgentKeys' },
)

const newKey = Type.Object(
  {
    agent_id: agentId,
    label: Type.Optional(Type.String({ maxLength: 64, examples: ['on the build machine'] })),
  },
  { ...closed, title: 'NewAgentKey' },
)

const issueSample = `answer=$(curl -sS "${serverMark}/api/v1/agent-keys" -H "Authorization: Bearer $ID_TOKEN" \\
  -H 'Content-Type: application/json' -d '{"agent_id":"whale","label":"on the build machine"}')
echo "$answer"
export AGENT_KEY_ID=$(echo "$answer" | sed 's/.*"id":"\\([^"]*\\)".*/\\1/')`

/** The one that the request of issuing exports. */
const revokeSample = `curl -sS -X DELETE "${serverMark}/api/v1/agent-keys/$AGENT_KEY_ID" \\
  -H "Authorization: Bearer $ID_TOKEN"`

export function registerAgentKeys(scope: FastifyInstance, main: MainApi): void {
  const app = scope.withTypeProvider<TypeBoxTypeProvider>()
  app.post(
    '/agent-keys',
    {
      config: { problems: ['forbidden', 'not_found', 'conflict'], sample: issueSample },
      schema: {
        operationId: 'issueAgentKey',
        tags: ['identity'],
        summary: 'Issue an agent key',
        body: newKey,
        response: { 201: issued },
      },
    },
    async (request, reply) => {
      const { agent_id, label } = request.body
      const args = { agentId: agent_id, ...(label === undefined ? {} : { label }) }
      const made = await operate(main.context, request, issueAgentKeyOperation, args)
      reply.code(201).header('cache-control', 'no-store')
      return made
    },
  )
  app.get(
    '/agent-keys',
    {
      config: { problems: ['forbidden', 'not_found'] },
      schema: {
        operationId: 'listAgentKeys',
        tags: ['identity'],
        summary: 'The agent keys, of all agents or of one',
        querystring: Type.Object({ agent_id: Type.Optional(agentId) }, closed),
        response: { 200: listed },
      },
    },
    async (request) => {
      const { agent_id } = request.query
      const args = agent_id === undefined ? {} : { agentId: agent_id }
      return operate(main.context, request, listAgentKeysOperation, args)
    },
  )
  app.delete(
    '/agent-keys/:id',
    {
      config: { problems: ['forbidden', 'not_found', 'log_unavailable'], sample: revokeSample },
      schema: {
        operationId: 'revokeAgentKey',
        tags: ['identity'],
        summary: 'Revoke an agent key and the tokens bought with it',
        params: Type.Object({ id: Type.String({ maxLength: 64 }) }, closed),
        response: { 200: agentKey },
      },
    },
    async (request) => {
      return operate(main.context, request, revokeAgentKeyOperation, { id: request.params.id })
    },
  )
}
