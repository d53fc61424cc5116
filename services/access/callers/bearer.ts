/** Makes the routes of a scope ask for an ID token, or for either of a gateway key and an ID token. */

import type { FastifyInstance } from 'fastify'
import { type Credential, describeScope } from '#runtime/http/api/facts.ts'
import type { GatewayKeys } from '../gateway-keys/gateway-keys.ts'
import type { Tokens } from '../tokens/tokens.ts'
import { authenticated } from './authenticated.ts'
import type { Caller } from './caller.ts'

const variable = 'ID_TOKEN'

const idToken: Credential = {
  name: 'idToken',
  bearerFormat: 'JWT',
  description:
    'An ID token of the identity provider: an agent trades its agent key for a custom token at `/api/v1/auth/agent` of the main ' +
    'API, and that for an ID token at the provider; people sign in. The requests shown here read it from the shell variable ' +
    `\`${variable}\`.`,
  variable,
}

const keyOrToken: Credential = {
  name: 'gatewayKeyOrIdToken',
  bearerFormat: 'vk_live_<43 characters> or JWT',
  description:
    'A gateway key (what `/v1/auth/verify` of the vector gateway answers) or an ID token (see the main API). The requests shown ' +
    `here read it from the shell variable \`${variable}\`.`,
  variable,
}

const tokenProblems = [
  'unauthorized',
  'token_expired',
  'relational_engine_unavailable',
  'identity_unavailable',
] as const

/** Requests of `scope` without a valid ID token are answered 401 before their body is read. */
export function bearer(scope: FastifyInstance, { tokens }: { tokens: Tokens }): void {
  describeScope(scope, { credential: idToken, problems: tokenProblems })
  authenticated(scope, (authorization) => tokens.authenticate(authorization))
}

/** As `bearer`, for interfaces that take gateway keys, too. */
export function either(scope: FastifyInstance, parts: { keys: GatewayKeys; tokens: Tokens }): void {
  describeScope(scope, { credential: keyOrToken, problems: tokenProblems })
  authenticated(scope, (authorization) => callerOfEither(parts, authorization))
}

/** As `authenticate` of the one or the other. */
export function callerOfEither(
  { keys, tokens }: { keys: GatewayKeys; tokens: Tokens },
  authorization: string | undefined,
): Caller | Promise<Caller> {
  return isGatewayKey(authorization) ? keys.authenticate(authorization) : tokens.authenticate(authorization)
}

function isGatewayKey(authorization: string | undefined): boolean {
  return /^Bearer +vk_live_/i.test(authorization ?? '')
}
