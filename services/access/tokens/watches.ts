/** Ends open streams whose caller may no longer have them: a signal for each, which aborts soon after the caller changed. */

import type { Logger } from 'pino'
import { describeError } from '#lib/errors.ts'
import type { Caller } from '../callers/caller.ts'

/** A change that the tails did not bring, as while the log is away, is found after this time. */
const lookAgainMs = 15_000
/** Longer than any timer can wait. */
const timerMsMax = 2 ** 31 - 1

/** What a token names, or a gateway key; as text it is the credential under which its caller is remembered. */
export type TokenSubject = Pick<Caller, 'kind' | 'uid' | 'agentKeyId' | 'gatewayKeyHash' | 'sessionId'>

interface WatchesParts {
  now(): number
  /** The caller as it is remembered; rejects when it may not call any more, or that cannot be known. */
  find(subject: TokenSubject): Promise<Caller>
  /** The caller as the database has it now; undefined when it may not call any more. */
  read(subject: TokenSubject): Promise<Caller | undefined>
  log: Logger
}

interface Open {
  caller: Caller
  ended: AbortController
}

export function createWatches({ now, find, read, log }: WatchesParts) {
  const byOwner = new Map<string, Set<Open>>()
  let looking: NodeJS.Timeout | undefined

  async function look(open: Open, ask: typeof read): Promise<void> {
    try {
      const present = await ask(open.caller)
      if (present?.access !== open.caller.access) open.ended.abort()
    } catch (error) {
      log.debug({ agent_id: open.caller.agentId, reason: describeError(error) }, 'stream.ended')
      open.ended.abort()
    }
  }
  function lookAgain(): void {
    for (const opens of byOwner.values()) for (const open of opens) void look(open, find)
  }
  /** Nothing runs while no stream is open. */
  function keepLooking(): void {
    if (byOwner.size === 0) {
      clearInterval(looking)
      looking = undefined
    } else looking ??= setInterval(lookAgain, lookAgainMs).unref()
  }

  return {
    watch(caller: Caller): { signal: AbortSignal; close(): void } {
      const open: Open = { caller, ended: new AbortController() }
      const owner = caller.agentId
      const opens = byOwner.get(owner) ?? new Set()
      byOwner.set(owner, opens.add(open))
      const leftMs = (caller.tokenExpiresAt ?? Number.POSITIVE_INFINITY) - now()
      const expiry =
        leftMs > timerMsMax ? undefined : setTimeout(() => open.ended.abort(), Math.max(0, leftMs)).unref()
      keepLooking()
      // It may have changed between its call and now.
      void look(open, find)
      return {
        signal: open.ended.signal,
        close() {
          clearTimeout(expiry)
          opens.delete(open)
          if (opens.size === 0 && byOwner.get(owner) === opens) byOwner.delete(owner)
          keepLooking()
        },
      }
    },
    /** The owner (agent id, or uid of a person) changed. */
    changed(owner: string): void {
      // A lookup in flight may have read the row before the change.
      for (const open of byOwner.get(owner) ?? []) void look(open, read)
    },
    close(): void {
      for (const opens of byOwner.values()) for (const { ended } of opens) ended.abort()
      byOwner.clear()
      keepLooking()
    },
  }
}
