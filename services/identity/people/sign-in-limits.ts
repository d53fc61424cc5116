/**
 * How often somebody may try to sign in. Wrong passwords make their own address wait; those of many addresses make an
 * account wait for seconds, and never at an address where it signed in before: so nobody can lock another out for long.
 */

import type { LRUCache } from 'lru-cache'
import { clientNetwork } from '#lib/hosts.ts'
import { createLru } from '#lib/lru.ts'
import { createSlidingWindows, refuseFor } from '#lib/sliding-window.ts'

/** After `free` wrong tries each further one has to wait: `firstMs`, twice as long after each, `longestMs` at most. */
export interface GrowingWait {
  free: number
  firstMs: number
  longestMs: number
}

/** Of one account at one address. */
const ofPair: GrowingWait = { free: 5, firstMs: 1_000, longestMs: 60_000 }
/** Of one account at all addresses where it has not signed in lately. */
const ofAccount: GrowingWait = { free: 30, firstMs: 250, longestMs: 15_000 }
/** Of one address for all accounts. Tries that succeed do not count. */
const ofAddress = [
  { count: 30, windowMs: 60_000 },
  { count: 300, windowMs: 3_600_000 },
]
/** Without a wrong try for so long all are forgotten. */
const forgottenAfterMs = 15 * 60_000
const knownForMs = 30 * 86_400_000
const keysMax = 20_000
const accountLengthMax = 254

export interface SignInLimits {
  /** Counts a try as a wrong one, until it is known to be right. Throws AppError `rate_limited`. */
  admit(account: string, address: string): AdmittedTry
}

export interface AdmittedTry {
  /** It was right: it does not count, nor do the wrong ones of this address before it. */
  right(): void
  /** Nobody knows whether it was right: it does not count. */
  takeBack(): void
}

interface Wrong {
  count: number
  lastAtMs: number
}

/** An account is its e-mail without case, whether there is one or not. */
export function createSignInLimits(now: () => number = () => performance.now()): SignInLimits {
  const addresses = createSlidingWindows(ofAddress, keysMax)
  const pairs = createLru<string, Wrong>(keysMax)
  const accounts = createLru<string, Wrong>(keysMax)
  /** Pairs of address and account that signed in, and when. */
  const known = createLru<string, number>(keysMax)
  const isKnown = (pair: string, nowMs: number) => nowMs - (known.get(pair) ?? -Infinity) < knownForMs
  return {
    admit(email, address) {
      const client = clientNetwork(address)
      const account = email.slice(0, accountLengthMax).toLowerCase()
      const pair = `${client} ${account}`
      const nowMs = now()
      refuseFor(
        Math.max(
          addresses.waitMs(client, nowMs),
          waitMs(pairs.get(pair), ofPair, nowMs),
          isKnown(pair, nowMs) ? 0 : waitMs(accounts.get(account), ofAccount, nowMs),
        ),
        'sign-ins that were refused',
      )
      addresses.count(client, nowMs)
      countWrong(pairs, pair, nowMs)
      countWrong(accounts, account, nowMs)
      const takeBack = () => {
        addresses.uncount(client, nowMs)
        uncountWrong(pairs, pair)
        uncountWrong(accounts, account)
      }
      return {
        takeBack,
        right() {
          takeBack()
          pairs.delete(pair)
          known.set(pair, nowMs)
        },
      }
    },
  }
}

function waitMs(wrong: Wrong | undefined, wait: GrowingWait, nowMs: number): number {
  if (!wrong || isForgotten(wrong, nowMs) || wrong.count < wait.free) return 0
  const pauseMs = Math.min(wait.longestMs, wait.firstMs * 2 ** Math.min(wrong.count - wait.free, 20))
  return Math.max(0, wrong.lastAtMs + pauseMs - nowMs)
}

function countWrong(all: LRUCache<string, Wrong>, key: string, nowMs: number): void {
  const before = all.get(key)
  const count = before && !isForgotten(before, nowMs) ? before.count : 0
  all.set(key, { count: count + 1, lastAtMs: nowMs })
}

function uncountWrong(all: LRUCache<string, Wrong>, key: string): void {
  const wrong = all.get(key)
  if (!wrong) return
  if (wrong.count <= 1) all.delete(key)
  else all.set(key, { ...wrong, count: wrong.count - 1 })
}

function isForgotten(wrong: Wrong, nowMs: number): boolean {
  return nowMs - wrong.lastAtMs >= forgottenAfterMs
}
