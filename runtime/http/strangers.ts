/** Shares one budget of bytes among everything that has no caller yet: unfinished headers, and bodies of open routes. */

import { budgets } from '#lib/budgets.ts'
import { deadlines } from '#lib/deadlines.ts'
import { AppError } from '#lib/errors.ts'

export interface Strangers {
  /** Bytes held now, of all holdings. */
  readonly heldBytes: number
  /**
   * Something without a caller begins. Announced bytes count from the beginning. `refuse` is called at most once, when it
   * is too slow (408) or has to make room (503); it counts no more then.
   */
  begin(announcedBytes: number, refuse: (fault: AppError) => void): Holding
}

export interface Holding {
  /** `bytes` have arrived so far. Refuses bodies below the least pace, and the oldest while all are over the budget. */
  arrived(bytes: number): void
  /** It is whole, or given up. */
  end(): void
}

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
  arrived: number
  /** When its pace was last checked, and how much had arrived then. */
  checkedMs: number
  checkedBytes: number
  refuse(fault: AppError): void
}

/** The oldest goes first: an ordinary request is over long before its turn. */
export function createStrangers(limits: StrangerLimits = usualLimits): Strangers {
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
      refuse(oldest, noRoom())
    }
  }

  return {
    get heldBytes() {
      return heldBytes
    },
    begin(announcedBytes, refuseIt) {
      const one: Held = {
        bytes: 0,
        arrived: 0,
        checkedMs: performance.now(),
        checkedBytes: 0,
        refuse: refuseIt,
      }
      all.add(one)
      hold(one, announcedBytes)
      return {
        arrived(bytes) {
          if (!all.has(one)) return
          one.arrived = bytes
          hold(one, bytes)
          const nowMs = performance.now()
          if (nowMs - one.checkedMs < paceMs) return
          if (bytes - one.checkedBytes < paceBytesMin) return refuse(one, tooSlow(limits))
          one.checkedMs = nowMs
          one.checkedBytes = bytes
        },
        end: () => void end(one),
      }
    },
  }
}

function noRoom(): AppError {
  return new AppError('overloaded', 'Too many unfinished requests without a caller; try again in a second.', {
    retryAfter: 1,
  })
}

function tooSlow({ paceBytesMin, paceMs }: StrangerLimits): AppError {
  return new AppError(
    'bad_request',
    `The request arrives too slowly: send at least ${paceBytesMin} bytes in every ${paceMs / 1_000} seconds.`,
    { statusCode: 408 },
  )
}
