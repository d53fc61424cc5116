/** POST /v1/auth/handshake and /v1/auth/verify. */

import type { TypeBoxTypeProvider } from '@fastify/type-provider-typebox'
import type { FastifyInstance, FastifyRequest } from 'fastify'
import { Type } from 'typebox'
import type { AppError } from '#lib/errors.ts'
import { serverMark } from '#runtime/http/api/facts.ts'
import { withAudit } from '#services/access/audit/trail/audit.ts'
import { audit } from '#services/access/front-door.ts'
import { type AdmittedCall, challengeTtlS } from '#services/access/handshake/handshakes.ts'
import type { Gateway } from '../gateway.ts'
import { closedObject } from '../schemas.ts'

declare module 'fastify' {
  interface FastifyRequest {
    /** A handshake or verification that its address may make. */
    handshake: AdmittedCall | null
  }
}

const agentId = Type.String({ minLength: 1, maxLength: 64, examples: ['whale'] })

const handshakeBody = closedObject(
  {
    agent_id: agentId,
    nonce: Type.String({
      pattern: '^[0-9a-fA-F]{16,256}$',
      rule: '16 to 256 hexadecimal digits',
      description: 'Made by the client: 16 to 256 random hex characters.',
      examples: ['9f86d081884c7d659a2feaa0c55ad015'],
    }),
  },
  { title: 'HandshakeRequest' },
)

const handshakeAnswer = closedObject(
  {
    client_nonce: Type.String({ description: 'The nonce as it was sent.' }),
    server_nonce: Type.String(),
    public_key_fingerprint: Type.String({ examples: ['SHA256:kmYcvdi2GkPeWxB6XLjrZB8JHsy2Hm8luHMFp9GMvqk'] }),
    expires_in: Type.Integer({ description: 'Seconds in which the challenge can be answered, once.' }),
  },
  { title: 'Challenge', description: 'To be signed and answered by verify.' },
)

const verifyBody = closedObject(
  {
    agent_id: agentId,
    signature: Type.String({
      description:
        'Hex of the Ed25519 signature over the UTF-8 bytes of client_nonce followed by server_nonce.',
    }),
  },
  { title: 'VerifyRequest' },
)

const verifyAnswer = closedObject(
  {
    api_key: Type.String({ description: 'vk_live_… : the Bearer credential of every vector operation.' }),
    expires_in: Type.Integer({ description: 'Seconds.' }),
  },
  { title: 'GatewayKey', description: 'The credential of every vector operation.' },
)

const problems = ['unknown_agent', 'rate_limited', 'relational_engine_unavailable'] as const

const jsonType = "-H 'Content-Type: application/json'"

/** The whole handshake, so that its key is there for the other requests of the page. */
const verifySample = `# As the agent whale, whose private key "flotilla agents provision --agent-id whale" wrote.
key=.flotilla/agents/whale/ed25519.pem
nonce=$(openssl rand -hex 16)
server_nonce=$(curl -sS "${serverMark}/v1/auth/handshake" ${jsonType} \\
  -d '{"agent_id":"whale","nonce":"'"$nonce"'"}' | sed 's/.*"server_nonce":"\\([^"]*\\)".*/\\1/')
signed=$(mktemp) && printf %s "$nonce$server_nonce" > "$signed"
signature=$(openssl pkeyutl -sign -rawin -inkey "$key" -in "$signed" | od -An -v -tx1 | tr -d ' \\n')
answer=$(curl -sS "${serverMark}/v1/auth/verify" ${jsonType} \\
  -d '{"agent_id":"whale","signature":"'"$signature"'"}')
echo "$answer"
export GATEWAY_API_KEY=$(echo "$answer" | sed 's/.*"api_key":"\\([^"]*\\)".*/\\1/')`

export function registerAuth(scope: FastifyInstance, gateway: Gateway): void {
  audit(scope, gateway.audit, {
    agentOf: (request, problem) => knownAgentOf(gateway, request, problem),
    // Fields of another name are faults of these bodies.
    collectionOf: () => null,
  })
  // Requests beyond the rate are refused before they are read, and counted whatever they hold.
  scope.decorateRequest('handshake', null)
  scope.addHook('onRequest', async (request) => {
    request.handshake = gateway.handshakes.admitAddress(request.ip)
  })
  scope.addHook('preValidation', async (request) => {
    request.handshake?.admitAgent(namedIn(request.body))
  })
  const app = scope.withTypeProvider<TypeBoxTypeProvider>()
  app.post(
    '/handshake',
    {
      config: { operation: 'handshake', problems },
      schema: {
        operationId: 'handshake',
        tags: ['auth'],
        summary: 'Ask for a challenge',
        body: handshakeBody,
        response: { 200: handshakeAnswer },
      },
    },
    async (request, reply) => {
      const { agent_id, nonce } = request.body
      // No audit record begins for an unknown agent: so the challenge comes first.
      const challenge = await gateway.handshakes.challenge(agent_id, nonce, request.ip)
      request.agentId = agent_id
      await withAudit(gateway, request, reply, { agentId: agent_id }, async () => undefined)
      return {
        client_nonce: nonce,
        server_nonce: challenge.serverNonce,
        public_key_fingerprint: challenge.fingerprint,
        expires_in: challengeTtlS,
      }
    },
  )
  app.post(
    '/verify',
    {
      config: { operation: 'verify', problems: [...problems, 'invalid_signature'], sample: verifySample },
      schema: {
        operationId: 'verify',
        tags: ['auth'],
        summary: 'Answer a challenge and receive a gateway key',
        body: verifyBody,
        response: { 200: verifyAnswer },
      },
    },
    async (request, reply) => {
      const { agent_id, signature } = request.body
      const verify = () => gateway.handshakes.verify(agent_id, signature, request.ip)
      // Only agents of the platform have audit notes of their own.
      const known = await gateway.handshakes.isKnown(agent_id)
      if (known) request.agentId = agent_id
      const issued = await (known
        ? withAudit(gateway, request, reply, { agentId: agent_id }, verify)
        : verify())
      reply.header('cache-control', 'no-store')
      return { api_key: issued.apiKey, expires_in: issued.expiresInS }
    },
  )
}

function namedIn(body: unknown): unknown {
  return (body as { agent_id?: unknown } | null | undefined)?.agent_id
}

/**
 * The agent that a request names, if there is one. While the database is away nobody is known; the answer says so
 * already.
 */
async function knownAgentOf(
  { handshakes }: Gateway,
  request: FastifyRequest,
  problem: AppError,
): Promise<string | null> {
  const named = namedIn(request.body)
  if (typeof named !== 'string' || problem.code === 'unknown_agent') return null
  if (problem.statusCode === 429) return handshakes.wasKnown(named) ? named : null
  const known = await handshakes.isKnown(named).catch(() => false)
  return known ? named : null
}
