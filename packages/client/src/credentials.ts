/** The credentials that calls carry: held ones are got when they are needed, and renewed before they run out. */

import { ownProblem, ProblemError } from './problem-error.ts'
import type { Call } from './transport.ts'

/** The call with this bearer credential. */
export function authorized(call: Call, credential: string): Call {
  return { ...call, headers: { ...call.headers, authorization: `Bearer ${credential}` } }
}

/** It is renewed when less than this share of its lifetime is left. */
const renewShare = 0.1

/** What calls carry as their bearer. */
export interface Credential {
  /** One that is still valid for a while. */
  get(): Promise<string>
  /** Resolves with what `send` makes of it; where that is answered 401, it is sent a second time with a new one, if there is one. */
  with<T>(send: (value: string) => Promise<T>): Promise<T>
}

/** A text that nobody renews, or a function that gives the present one. */
export function givenCredential(given: string | (() => string | Promise<string>)): Credential {
  return typeof given === 'string'
    ? { get: async () => given, with: async (send) => send(given) }
    : holdCredential(async () => ({ value: await given(), lifetimeS: 0 }))
}

/** Says at the first call that needs it what there is none of. */
export function missingCredential(detail: string): Credential {
  const refuse = async () => {
    throw ownProblem('no_credential', detail)
  }
  return { get: refuse, with: refuse }
}

export interface Obtained {
  value: string
  lifetimeS: number
}

/**
 * Holds a credential that runs out: gets one when it is needed or was refused, one at a time. `now`: milliseconds that only go
 * forward.
 */
export function holdCredential(
  obtain: () => Promise<Obtained>,
  now: () => number = () => performance.now(),
): Credential {
  let held: { value: string; renewAt: number } | undefined
  let renewing: Promise<NonNullable<typeof held>> | undefined

  async function renew() {
    const begun = now()
    const { value, lifetimeS } = await obtain()
    return { value, renewAt: begun + lifetimeS * 1_000 * (1 - renewShare) }
  }
  async function get(): Promise<string> {
    if (held && now() < held.renewAt) return held.value
    renewing ??= renew().finally(() => {
      renewing = undefined
    })
    held = await renewing
    return held.value
  }
  return {
    get,
    async with<T>(send: (value: string) => Promise<T>): Promise<T> {
      const value = await get()
      try {
        return await send(value)
      } catch (error) {
        if (!(error instanceof ProblemError) || error.status !== 401) throw error
        if (held?.value === value) held = undefined
        return send(await get())
      }
    },
  }
}
