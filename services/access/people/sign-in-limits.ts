/**
 * How often somebody may try to sign in. Wrong passwords make their own address wait, and those of many addresses make an
 * account wait for seconds. Neither holds up an account at an address where it signed in before, nor a browser that did:
 * these have tries of their own, so that nobody can lock another out.
 */

import { randomBytes } from 'node:crypto'
import type { LRUCache } from 'lru-cache'
import { clientNetwork } from '#lib/hosts.ts'
import { createLru } from '#lib/lru.ts'
import { createSlidingWindows, refuseFor } from '#lib/sliding-window.ts'
import { createSealedCookies, type SecretKey } from '../secrets/sealing.ts'

/** After `free` wrong tries each further one has to wait: `firstMs`, twice as long after each, `longestMs` at most. */
interface GrowingWait {
  free: number
  firstMs: number
  longestMs: number
}

/** Waits for one account at one address, or in one browser that signed in before. */
const ofPair: GrowingWait = { free: 5, firstMs: 1_000, longestMs: 60_000 }
/** Waits for one account, at addresses where it has not signed in lately. */
const ofAccount: GrowingWait = { free: 30, firstMs: 250, longestMs: 15_000 }
/** Rates of one address for all accounts that have not signed in there lately. Successful attempts do not count. */
const ofAddress = [
  { count: 30, windowMs: 60_000 },
  { count: 300, windowMs: 3_600_000 },
]
/** Without a wrong try for so long all are forgotten. */
const forgottenAfterMs = 15 * 60_000
const knownForMs = 30 * 86_400_000
const keysMax = 20_000
const accountLengthMax = 254

export type SignInLimits = ReturnType<typeof createSignInLimits>

export interface AdmittedTry {
  /** Whose turn checking the password takes. */
  turn: string
  /** It was right: it does not count, nor do the wrong ones of this address and browser before it. */
  right(): void
  /** Nobody knows whether it was right: it does not count. */
  takeBack(): void
}

interface Wrong {
  count: number
  lastAtMs: number
}

/** An account is its e-mail without the case of ASCII letters, as people are found by it, whether there is one or not. */
function accountOf(email: string): string {
  return email.slice(0, accountLengthMax).replace(/[A-Z]+/g, (letters) => letters.toLowerCase())
}

export function createSignInLimits(now: () => number = () => performance.now()) {
  const addresses = createSlidingWindows(ofAddress, keysMax)
  /** Wrong passwords by pair of address and account, by account, and by browser. */
  const pairs = createLru<string, Wrong>(keysMax)
  const accounts = createLru<string, Wrong>(keysMax)
  const browsers = createLru<string, Wrong>(keysMax)
  /** Pairs that signed in, and when. */
  const known = createLru<string, number>(keysMax)
  const isKnown = (pair: string, nowMs: number) => nowMs - (known.get(pair) ?? -Infinity) < knownForMs
  return {
    /**
     * Counts a try as a wrong one, until it is known to be right. `browser` is the id of one that signed in to this account
     * before: its own tries alone hold it up. Throws AppError `rate_limited`.
     */
    admit(email: string, address: string, browser?: string): AdmittedTry {
      const client = clientNetwork(address)
      const account = accountOf(email)
      const pair = `${client} ${account}`
      const nowMs = now()
      const ofStranger = () =>
        Math.max(addresses.waitMs(client, nowMs), waitMs(accounts.get(account), ofAccount, nowMs))
      const holdingUp =
        browser !== undefined
          ? waitMs(browsers.get(browser), ofPair, nowMs)
          : Math.max(waitMs(pairs.get(pair), ofPair, nowMs), isKnown(pair, nowMs) ? 0 : ofStranger())
      refuseFor(holdingUp, 'sign-ins that were refused')
      // Each counts everywhere: whoever has somebody's cookie has no more tries than without it.
      const counted: [LRUCache<string, Wrong>, string][] = [
        [pairs, pair],
        [accounts, account],
        ...(browser === undefined ? [] : [[browsers, browser] as [LRUCache<string, Wrong>, string]]),
      ]
      addresses.count(client, nowMs)
      for (const [all, key] of counted) countWrong(all, key, nowMs)
      const takeBack = () => {
        addresses.uncount(client, nowMs)
        for (const [all, key] of counted) uncountWrong(all, key)
      }
      return {
        turn: browser === undefined ? address : `browser ${browser}`,
        takeBack,
        right() {
          takeBack()
          pairs.delete(pair)
          if (browser !== undefined) browsers.delete(browser)
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

/** From the last sign-in on. */
export const knownBrowserTtlS = 180 * 86_400

export type KnownBrowsers = ReturnType<typeof createKnownBrowsers>

/** Browsers that signed in before: a cookie gives each tries of its own at the account that signed in, and nothing else. */
export function createKnownBrowsers(key: SecretKey, now?: () => number) {
  const cookies = createSealedCookies<{ id: string; account: string }>(
    key,
    { name: 'known-browser', ttlS: knownBrowserTtlS },
    now,
  )
  /** Its id, where the cookie was given to it for this e-mail; undefined for a cookie that is forged, too old or of another account. */
  function idOf(cookie: string | undefined, email: string): string | undefined {
    const known = cookies.open(cookie)
    return known?.account === accountOf(email) ? known.id : undefined
  }
  return {
    idOf,
    /** Its id, whatever the account. */
    anyIdOf: (cookie: string | undefined) => cookies.open(cookie)?.id,
    /** The cookie of a browser that signed in with this e-mail. One that had such a cookie keeps its id. */
    cookieFor: (email: string, cookie: string | undefined) =>
      cookies.seal({
        id: idOf(cookie, email) ?? randomBytes(16).toString('base64url'),
        account: accountOf(email),
      }),
  }
}
