/** Keyed requests in; each counts as one operation of its agent or is refused before its body is read. */

import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'

import { callerOf } from '#services/identity/gateway-keys/require-key.ts'
import { rateLimitHeader, rateLimitPolicy } from './headers.ts'
import type { Limiter, Operation } from './limiter.ts'
import { LimitRefusal } from './refusal.ts'

/** Register it behind requireKey: everything in `scope` is metered. */
export function meter(scope: FastifyInstance, gateway: { limiter: Limiter }): void {
  const { limiter } = gateway
  scope.addHook('onRequest', (request, reply, done) => {
    let begun: Operation | Promise<Operation>
    const over = whenOver(reply)
    try {
      begun = limiter.begin(callerOf(request))
    } catch (error) {
      return done(refused(request, reply, error))
    }
    if (!(begun instanceof Promise)) {
      over.ends(begun)
      describe(request, reply)
      return done()
    }
    begun.then(
      (operation) => {
        over.ends(operation)
        describe(request, reply)
        done()
      },
      (error) => done(refused(request, reply, error)),
    )
  })

  function describe(request: FastifyRequest, reply: FastifyReply, refusal?: LimitRefusal): void {
    const standing = limiter.standing(callerOf(request))
    if (!standing) return
    reply.header('ratelimit-policy', rateLimitPolicy(standing.limits))
    reply.header('ratelimit', rateLimitHeader(standing, refusal))
  }

  function refused(request: FastifyRequest, reply: FastifyReply, error: unknown): Error {
    request.unmetered = true
    describe(request, reply, error instanceof LimitRefusal ? error : undefined)
    return error as Error
  }
}

/** The operation ends with its answer: when it is written, or when its connection is gone, be it before it began. */
function whenOver(reply: FastifyReply): { ends(operation: Operation): void } {
  let operation: Operation | undefined
  let over = false
  const end = () => {
    over = true
    operation?.end()
  }
  reply.raw.once('finish', end)
  reply.raw.once('close', end)
  return {
    ends(begun) {
      operation = begun
      if (over) begun.end()
    },
  }
}
