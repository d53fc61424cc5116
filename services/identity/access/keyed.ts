/** Makes the routes of a scope ask for a gateway key, and gives their handlers the agent behind it. */

import type { FastifyInstance, FastifyRequest } from 'fastify'
import { type Credential, describeScope } from '#runtime/http/api/facts.ts'
import type { Caller, GatewayKeys } from '../gateway-keys/gateway-keys.ts'

declare module 'fastify' {
  interface FastifyRequest {
    /** The agent behind the gateway key; set before a keyed route's handler runs. */
    caller: Caller | null
  }
}

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
  if (!scope.hasRequestDecorator('caller')) scope.decorateRequest('caller', null)
  describeScope(scope, {
    credential: gatewayKey,
    problems: ['unauthorized', 'relational_engine_unavailable'],
  })
  scope.addHook('onRequest', (request, _reply, done) => {
    let found: Caller | Promise<Caller>
    try {
      found = keys.authenticate(request.headers.authorization)
    } catch (error) {
      return done(error as Error)
    }
    // A cached key costs no turn of the event loop.
    if (!(found instanceof Promise)) {
      accept(request, found)
      return done()
    }
    found.then((caller) => {
      accept(request, caller)
      done()
    }, done)
  })
}

function accept(request: FastifyRequest, caller: Caller): void {
  request.caller = caller
  request.agentId = caller.agentId
}

/** The agent behind the request of a keyed route. */
export function callerOf(request: FastifyRequest): Caller {
  if (!request.caller) throw new Error('the route is not keyed')
  return request.caller
}
