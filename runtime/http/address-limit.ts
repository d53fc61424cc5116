/** Limits how often one address may call the routes of a scope that ask for no credential. */

import type { FastifyInstance, onRequestHookHandler } from 'fastify'
import { clientNetwork } from '#lib/hosts.ts'
import { createSlidingWindows, refuseFor, type WindowLimit } from '#lib/sliding-window.ts'
import { describeScope } from './api/facts.ts'

const addressesMax = 20_000

/**
 * Beyond one of the rates a request is answered 429 `rate_limited` before its body is read. All addresses of an IPv6 /64
 * count as one.
 */
export function limitedByAddress(scope: FastifyInstance, rates: readonly WindowLimit[]): void {
  describeScope(scope, { problems: ['rate_limited'] })
  scope.addHook('onRequest', addressLimit(rates))
}

/** The same for one route that is not described. */
export function addressLimit(rates: readonly WindowLimit[]): onRequestHookHandler {
  const windows = createSlidingWindows(rates, addressesMax)
  return (request, _reply, done) => {
    const client = clientNetwork(request.ip)
    const nowMs = performance.now()
    refuseFor(windows.waitMs(client, nowMs), 'requests of this address')
    windows.count(client, nowMs)
    done()
  }
}
