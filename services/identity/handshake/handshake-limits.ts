/** The rates of handshakes and verifications, of an address and of an agent there: refused before anything is looked up. */

import { AppError } from '#lib/errors.ts'
import { createSlidingWindows } from '#services/limits/sliding-window.ts'

const perAgentAndAddress = [
  { count: 20, windowMs: 1_000 },
  { count: 300, windowMs: 60_000 },
]
const perAddress = [{ count: 100, windowMs: 1_000 }]
const keysMax = 20_000

export interface HandshakeLimits {
  /** Throws AppError `rate_limited`. */
  admit(agentId: string, address: string): void
}

export function createHandshakeLimits(now: () => number = () => performance.now()): HandshakeLimits {
  const addresses = createSlidingWindows(perAddress, keysMax)
  const agents = createSlidingWindows(perAgentAndAddress, keysMax)
  return {
    admit(agentId, address) {
      const nowMs = now()
      const pair = `${address} ${agentId}`
      const waitMs = Math.max(addresses.waitMs(address, nowMs), agents.waitMs(pair, nowMs))
      if (waitMs > 0) {
        throw new AppError('rate_limited', 'Too many handshakes: wait for retryAfter seconds.', {
          retryAfter: Math.ceil(waitMs) / 1_000,
        })
      }
      addresses.count(address, nowMs)
      agents.count(pair, nowMs)
    },
  }
}
