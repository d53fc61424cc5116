/** Makes the routes of a scope ask for a gateway key, and gives their handlers the agent behind it. */

import type { FastifyInstance } from 'fastify'
import { type Credential, describeScope } from '#runtime/http/api/facts.ts'
import type { GatewayKeys } from '../gateway-keys/gateway-keys.ts'
import { authenticated } from './authenticated.ts'

const gatewayKey: Credential = {
  name: 'gatewayKey',
  bearerFormat: 'vk_live_<43 characters>',
  description:
    'A gateway key: what `/v1/auth/verify` of the vector gateway answers, for an hour where nothing else is set. The requests ' +
    'shown here read it from the shell variable `GATEWAY_API_KEY`; the one of verify sets it.',
  variable: 'GATEWAY_API_KEY',
}

/** Requests of `scope` without a valid key are answered 401 before their body is read. */
export function keyed(scope: FastifyInstance, { keys }: { keys: GatewayKeys }): void {
  describeScope(scope, {
    credential: gatewayKey,
    problems: ['unauthorized', 'relational_engine_unavailable'],
  })
  authenticated(scope, (authorization) => keys.authenticate(authorization))
}
