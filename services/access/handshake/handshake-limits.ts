/** The rates of handshakes and verifications, of an address and of an agent there: refused before anything is read or looked up. */

import { clientNetwork } from '#lib/hosts.ts'
import { createSlidingWindows, refuseFor } from '#lib/sliding-window.ts'

const perAgentAndAddress = [
  { count: 20, windowMs: 1_000 },
  { count: 300, windowMs: 60_000 },
]
const perAddress = [{ count: 100, windowMs: 1_000 }]
/** Signatures of an agent that nobody made, from wherever they come. */
const failuresPerAgent = [{ count: 100, windowMs: 60_000 }]
const failuresPerAgentAndAddress = [{ count: 1, windowMs: 60_000 }]
const keysMax = 20_000
const handshakes = 'handshakes'
/** Longer names are no agent ids. */
const namedLengthMax = 65

export interface HandshakeLimits {
  /** Counts a call of this address, before anything of it is read. Throws AppError `rate_limited`. */
  admitAddress(address: string): AdmittedCall
  /**
   * The result counts a signature that was wrong. Throws AppError `rate_limited` where too many of the agent's were lately,
   * and one of this address: the agent itself, which signs rightly, is not kept out by a flood from elsewhere.
   */
  admitVerification(agentId: string, address: string): () => void
}

/** A call that its address may make. */
export interface AdmittedCall {
  /**
   * Counts it for the agent that it names, whatever that is, too; before anything of it is checked. Throws AppError
   * `rate_limited`: then it takes nothing from its address.
   */
  admitAgent(named: unknown): void
}

/** All addresses of an IPv6 /64 count as one. */
export function createHandshakeLimits(now: () => number = () => performance.now()): HandshakeLimits {
  const addresses = createSlidingWindows(perAddress, keysMax)
  const agents = createSlidingWindows(perAgentAndAddress, keysMax)
  const failures = createSlidingWindows(failuresPerAgent, keysMax)
  const failuresHere = createSlidingWindows(failuresPerAgentAndAddress, keysMax)
  return {
    admitVerification(agentId, address) {
      const pair = `${clientNetwork(address)} ${agentId}`
      const nowMs = now()
      if (failuresHere.waitMs(pair, nowMs) > 0) refuseFor(failures.waitMs(agentId, nowMs), 'wrong signatures')
      return () => {
        failures.count(agentId, now())
        failuresHere.count(pair, now())
      }
    },
    admitAddress(address) {
      const client = clientNetwork(address)
      const calledAt = now()
      refuseFor(addresses.waitMs(client, calledAt), handshakes)
      addresses.count(client, calledAt)
      return {
        admitAgent(named) {
          // What is no agent id counts together: nobody has that name.
          const agent = typeof named === 'string' ? named.slice(0, namedLengthMax) : ''
          const pair = `${client} ${agent}`
          const nowMs = now()
          const waitMs = agents.waitMs(pair, nowMs)
          if (waitMs > 0) addresses.uncount(client, calledAt)
          refuseFor(waitMs, handshakes)
          agents.count(pair, nowMs)
        },
      }
    },
  }
}
