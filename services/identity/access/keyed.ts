/** Makes the routes of a scope ask for a gateway key, and gives their handlers the agent behind it. */

import type { FastifyInstance, FastifyRequest } from 'fastify'
import type { Caller, GatewayKeys } from '../gateway-keys/gateway-keys.ts'

declare module 'fastify' {
  interface FastifyRequest {
    /** The agent behind the gateway key; set before a keyed route's handler runs. */
    caller: Caller | null
  }
}

/** Requests of `scope` without a valid key are answered 401 before their body is read. */
export function keyed(scope: FastifyInstance, { keys }: { keys: GatewayKeys }): void {
  if (!scope.hasRequestDecorator('caller')) scope.decorateRequest('caller', null)
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
