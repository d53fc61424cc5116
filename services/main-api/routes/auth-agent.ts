/** POST /api/v1/auth/agent: an agent trades its agent key for a custom token. */

import type { TypeBoxTypeProvider } from '@fastify/type-provider-typebox'
import type { FastifyInstance } from 'fastify'
import { Type } from 'typebox'
import { AppError } from '#lib/errors.ts'
import { serverMark, shownAs } from '#runtime/http/api/facts.ts'
import { agentKeyPattern, hashAgentKey } from '#services/access/agent-keys/agent-keys.ts'
import type { MainApi } from '../main-api.ts'
import { closed, role } from '../schemas.ts'

/** The handler checks it: whatever is wrong with it has one code. */
const body = Type.Unsafe<unknown>(
  shownAs(
    Type.Object(
      {
        key: Type.String({
          pattern: agentKeyPattern.source,
          description: 'The agent key, as it was shown when it was issued.',
          examples: [`svc_${'0'.repeat(64)}`],
        }),
      },
      { ...closed, title: 'AgentKeyTrade' },
    ),
  ),
)

const customToken = Type.Object(
  {
    customToken: Type.String({ description: 'To be traded for an ID token at the identity provider.' }),
    expiresIn: Type.Integer({ description: 'Seconds in which it can be traded.' }),
    agent: Type.Object({
      uid: Type.String(),
      slug: Type.String(),
      name: Type.String(),
      role,
    }),
  },
  { title: 'CustomToken' },
)

/** Both trades, so that the tokens are there for the other requests of the page. */
const sample = `# AGENT_KEY holds the key that "flotilla agent-keys issue" printed.
answer=$(curl -sS "${serverMark}/api/v1/auth/agent" -H 'Content-Type: application/json' -d '{"key":"'"$AGENT_KEY"'"}')
echo "$answer"
export CUSTOM_TOKEN=$(echo "$answer" | sed 's/.*"customToken":"\\([^"]*\\)".*/\\1/')
answer=$(curl -sS "${serverMark}/identitytoolkit.googleapis.com/v1/accounts:signInWithCustomToken?key=any" \\
  -H 'Content-Type: application/json' -d '{"token":"'"$CUSTOM_TOKEN"'","returnSecureToken":true}')
export ID_TOKEN=$(echo "$answer" | sed 's/.*"idToken":"\\([^"]*\\)".*/\\1/')
export REFRESH_TOKEN=$(echo "$answer" | sed 's/.*"refreshToken":"\\([^"]*\\)".*/\\1/')`

export function registerAuthAgent(scope: FastifyInstance, main: MainApi): void {
  scope.withTypeProvider<TypeBoxTypeProvider>().post(
    '/auth/agent',
    {
      config: {
        problems: [
          'invalid_agent_key',
          'unauthorized',
          'rate_limited',
          'relational_engine_unavailable',
          'identity_unavailable',
        ],
        sample,
      },
      schema: {
        operationId: 'tradeAgentKey',
        tags: ['identity'],
        summary: 'Trade an agent key for a custom token',
        description:
          'A key of another shape is 400; an unknown and a revoked one get the same 401. Each key may be traded 10 times a minute, ' +
          '5 times at once; an address may ask 100 times a second.',
        body,
        response: { 200: customToken },
      },
    },
    async (request, reply) => {
      const keyHash = hashAgentKey(keyIn(request.body))
      main.keyLimits.admit(keyHash, request.ip)
      const { uid, agentId: slug, name, access: role, agentKeyId } = await main.tokens.keyHolder(keyHash)
      request.agentId = slug
      const agent_key = agentKeyId as string
      const { customToken, expiresInS } = await main.identity.createCustomToken(uid, { agent_key })
      main.lastUse.note(agent_key)
      reply.header('cache-control', 'no-store')
      return { customToken, expiresIn: expiresInS, agent: { uid, slug, name, role } }
    },
  )
}

/** Throws AppError `invalid_agent_key` for every body but `{"key": "svc_…"}`. */
function keyIn(body: unknown): string {
  const fields = typeof body === 'object' && body !== null && !Array.isArray(body) ? Object.entries(body) : []
  const [name, key] = fields.length === 1 ? fields[0]! : []
  if (name === 'key' && typeof key === 'string' && agentKeyPattern.test(key)) return key
  throw new AppError('invalid_agent_key', 'Send {"key": "svc_…"} with 64 lowercase hex digits after svc_.')
}
