/** How often an agent key may be traded, of each key and of each address: counted before the vault is asked. */

import { clientNetwork } from '#lib/hosts.ts'
import { createSlidingWindows, refuseFor } from '#lib/sliding-window.ts'

/** Ten a minute; five of them at once, after which they pass with the pace of ten a minute. */
const perKey = [
  { count: 10, windowMs: 60_000 },
  { count: 5, windowMs: 6_000 },
]
const perAddress = [{ count: 100, windowMs: 1_000 }]
const keysMax = 50_000
const addressesMax = 20_000

export interface KeyLimits {
  /** Counts a trade of this key, known or not, from this address. Throws AppError `rate_limited`; then it does not count. */
  admit(keyHash: string, address: string): void
}

/** All addresses of an IPv6 /64 count as one. Beyond 50,000 keys the one that was used least recently is forgotten. */
export function createKeyLimits(now: () => number = () => performance.now()): KeyLimits {
  const keys = createSlidingWindows(perKey, keysMax)
  const addresses = createSlidingWindows(perAddress, addressesMax)
  return {
    admit(keyHash, address) {
      const nowMs = now()
      const client = clientNetwork(address)
      const waitMs = Math.max(keys.waitMs(keyHash, nowMs), addresses.waitMs(client, nowMs))
      refuseFor(waitMs, 'trades of an agent key')
      keys.count(keyHash, nowMs)
      addresses.count(client, nowMs)
    },
  }
}
