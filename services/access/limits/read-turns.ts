/**
 * What readers of topics may read in a second: a caller, and all together, who then take turns over callers. It counts
 * what was given, so a caller is held before its next piece.
 */

import { sleep } from '#lib/backoff.ts'
import { createLru } from '#lib/lru.ts'

const mebibyte = 1024 * 1024
const callerBytesPerSecond = 8 * mebibyte
const allBytesPerSecond = 32 * mebibyte
/** After a rest so much may go at once. */
const burstMs = 1_000
const callersMax = 10_000

export type ReadTurns = ReturnType<typeof createReadTurns>

export function createReadTurns({
  callerBytes = callerBytesPerSecond,
  allBytes = allBytesPerSecond,
  now = () => performance.now(),
} = {}) {
  /** By caller: until when its bytes are paid for, in ms. */
  const callers = createLru<string, number>(callersMax)
  /** By caller, in the order of their turns. */
  const waiting = new Map<string, Turn[]>()
  let paidUntil = Number.NEGATIVE_INFINITY
  let timer: NodeJS.Timeout | undefined

  const charge = (until: number, bytes: number, perSecond: number) =>
    Math.max(until, now() - burstMs) + (bytes / perSecond) * 1_000

  function pump(): void {
    timer = undefined
    for (const [caller, turns] of waiting) {
      if (paidUntil > now()) break
      const turn = turns.shift()!
      // Behind all others.
      waiting.delete(caller)
      if (turns.length > 0) waiting.set(caller, turns)
      paidUntil = charge(paidUntil, turn.bytes, allBytes)
      turn.goOn()
    }
    if (waiting.size > 0) timer ??= setTimeout(pump, Math.max(1, paidUntil - now()))
  }

  async function wait(caller: string, bytes: number, ownMs: number, signal: AbortSignal): Promise<void> {
    if (ownMs > 0) await sleep(ownMs, signal)
    if (signal.aborted) return
    const { promise, resolve } = Promise.withResolvers<void>()
    const turn = { bytes, goOn: resolve }
    waiting.set(caller, [...(waiting.get(caller) ?? []), turn])
    const leave = () => {
      const rest = (waiting.get(caller) ?? []).filter((one) => one !== turn)
      if (rest.length > 0) waiting.set(caller, rest)
      else waiting.delete(caller)
      resolve()
    }
    signal.addEventListener('abort', leave, { once: true })
    if (!timer) pump()
    await promise
    signal.removeEventListener('abort', leave)
  }

  return {
    /** Resolves when these bytes may go to the caller; undefined: at once. Also resolves when the signal aborts. */
    take(caller: string, bytes: number, signal: AbortSignal): Promise<void> | undefined {
      const own = charge(callers.get(caller) ?? Number.NEGATIVE_INFINITY, bytes, callerBytes)
      callers.set(caller, own)
      const ownMs = own - now()
      if (ownMs > 0 || waiting.size > 0 || paidUntil > now()) return wait(caller, bytes, ownMs, signal)
      paidUntil = charge(paidUntil, bytes, allBytes)
      return undefined
    },
  }
}

interface Turn {
  bytes: number
  goOn(): void
}
