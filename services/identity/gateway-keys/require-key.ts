/** Requests with a gateway key pass, with the agent known; others are answered 401 before their body is read. */

import type { FastifyInstance, FastifyRequest } from 'fastify'
import type { Caller, GatewayKeys } from './gateway-keys.ts'

export function requireKey(scope: FastifyInstance, gateway: { keys: GatewayKeys }): void {
  scope.addHook('onRequest', (request, _reply, done) => {
    let found: Caller | Promise<Caller>
    try {
      found = gateway.keys.authenticate(request.headers.authorization)
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
  if (!request.caller) throw new Error('the route is not behind requireKey')
  return request.caller
}
