/** Limits how often one address may call the routes of a scope that ask for no credential. */

import type { FastifyInstance, FastifyRequest, onRequestHookHandler } from 'fastify'
import { clientNetwork } from '#lib/hosts.ts'
import { createSlidingWindows, refuseFor, type WindowLimit } from '#lib/sliding-window.ts'
import { describeScope } from './api/facts.ts'

const addressesMax = 20_000

/**
 * Beyond one of the rates a request is answered 429 `rate_limited` before its body is read. All addresses of an IPv6 /64
 * count as one. A request that `knownAs` knows counts under that name in place of its address.
 */
export function limitedByAddress(
  scope: FastifyInstance,
  rates: readonly WindowLimit[],
  knownAs?: (request: FastifyRequest) => string | undefined,
): void {
  describeScope(scope, { problems: ['rate_limited'] })
  scope.addHook('onRequest', addressLimit(rates, knownAs))
}

/** The same for one route that is not described. */
export function addressLimit(
  rates: readonly WindowLimit[],
  knownAs: (request: FastifyRequest) => string | undefined = () => undefined,
): onRequestHookHandler {
  const windows = createSlidingWindows(rates, addressesMax)
  return (request, _reply, done) => {
    const client = knownAs(request) ?? clientNetwork(request.ip)
    const nowMs = performance.now()
    refuseFor(windows.waitMs(client, nowMs), 'requests of this address')
    windows.count(client, nowMs)
    done()
  }
}
