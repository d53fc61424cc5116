/** Holds a credential that runs out: gets one when it is needed or was refused, one at a time. */

import { ProblemError } from './problem-error.ts'

/** It is renewed when less than this share of its lifetime is left. */
const renewShare = 0.1

export interface HeldCredential {
  /** One that is still valid for a while. */
  get(): Promise<string>
  /**
   * Resolves with what `send` makes of the credential; where that is answered 401, it is sent a second time with a new one.
   */
  with<T>(send: (credential: string) => Promise<T>): Promise<T>
}

export interface Obtained {
  value: string
  lifetimeS: number
}

/** `now`: milliseconds that only go forward. */
export function holdCredential(
  obtain: () => Promise<Obtained>,
  now: () => number = () => performance.now(),
): HeldCredential {
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
    async with(send) {
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
