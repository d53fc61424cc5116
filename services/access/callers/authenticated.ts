/** Makes the routes of a scope ask who is calling, by whatever finds the caller behind an Authorization header. */

import type { FastifyInstance, FastifyRequest } from 'fastify'
import type { Caller } from './caller.ts'

export type Authenticate = (authorization: string | undefined) => Caller | Promise<Caller>

/** Requests of `scope` that it does not let in are answered before their body is read. */
export function authenticated(scope: FastifyInstance, authenticate: Authenticate): void {
  if (!scope.hasRequestDecorator('caller')) scope.decorateRequest('caller', null)
  scope.addHook('onRequest', (request, _reply, done) => {
    let found: Caller | Promise<Caller>
    try {
      found = authenticate(request.headers.authorization)
    } catch (error) {
      return done(error as Error)
    }
    // A credential that is cached costs no turn of the event loop.
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
