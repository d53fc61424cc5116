/**
 * What requests without a caller may take: one budget of bytes for unfinished headers and bodies of open routes, and so many
 * calls of one address.
 */

import type { FastifyInstance, FastifyRequest, onRequestHookHandler } from 'fastify'
import { budgets } from '#lib/budgets.ts'
import { deadlines } from '#lib/deadlines.ts'
import { AppError, overloaded } from '#lib/errors.ts'
import { clientNetwork } from '#lib/hosts.ts'
import { createSlidingWindows, refuseFor, type WindowLimit } from '#lib/sliding-window.ts'
import { describeScope } from './api/facts.ts'

export type Strangers = ReturnType<typeof createStrangers>
export type Holding = ReturnType<Strangers['begin']>

export interface StrangerLimits {
  bytesMax: number
  paceBytesMin: number
  paceMs: number
}

const usualLimits: StrangerLimits = {
  bytesMax: budgets.http.strangerBytes,
  paceBytesMin: budgets.http.strangerPaceBytes,
  paceMs: deadlines.request.bodyPaceMs,
}

interface Held {
  bytes: number
  /** When its pace was last checked, and how much had arrived then. */
  checkedMs: number
  checkedBytes: number
  refuse(fault: AppError): void
}

/** The oldest goes first: an ordinary request is over long before its turn. */
export function createStrangers(limits: StrangerLimits = usualLimits) {
  const { bytesMax, paceBytesMin, paceMs } = limits
  /** Oldest first. */
  const all = new Set<Held>()
  let heldBytes = 0

  function end(one: Held): boolean {
    if (!all.delete(one)) return false
    heldBytes -= one.bytes
    return true
  }

  function refuse(one: Held, fault: AppError): void {
    if (end(one)) one.refuse(fault)
  }

  function hold(one: Held, bytes: number): void {
    if (bytes <= one.bytes) return
    heldBytes += bytes - one.bytes
    one.bytes = bytes
    for (const oldest of all) {
      if (heldBytes <= bytesMax) return
      refuse(oldest, overloaded('Too many unfinished requests without a caller'))
    }
  }

  return {
    /** Bytes held now, of all holdings. */
    get heldBytes() {
      return heldBytes
    },
    /**
     * Something without a caller begins. Announced bytes count from the beginning. `refuseIt` is called at most once, when
     * it is too slow (408) or has to make room (503); it counts no more then.
     */
    begin(announcedBytes: number, refuseIt: (fault: AppError) => void) {
      const one: Held = { bytes: 0, checkedMs: performance.now(), checkedBytes: 0, refuse: refuseIt }
      all.add(one)
      hold(one, announcedBytes)
      return {
        /** `bytes` so far. Refuses bodies below the least pace, and the oldest while all are over the budget. */
        arrived(bytes: number) {
          if (!all.has(one)) return
          hold(one, bytes)
          const nowMs = performance.now()
          if (nowMs - one.checkedMs < paceMs) return
          if (bytes - one.checkedBytes < paceBytesMin) return refuse(one, tooSlow(limits))
          one.checkedMs = nowMs
          one.checkedBytes = bytes
        },
        /** It is whole, or given up. */
        end: () => void end(one),
      }
    },
  }
}

function tooSlow({ paceBytesMin, paceMs }: StrangerLimits): AppError {
  return new AppError(
    'bad_request',
    `The request arrives too slowly: send at least ${paceBytesMin} bytes in every ${paceMs / 1_000} seconds.`,
    { statusCode: 408 },
  )
}

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
