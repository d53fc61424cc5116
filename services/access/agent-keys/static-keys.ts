/**
 * Agent keys as the credential of a request, for callers that hold one key for good, such as chat windows: who holds the key, and how
 * often wrong ones may be tried. Unlike a trade, a right key counts only as an operation of its agent.
 */

import type { Logger } from 'pino'
import type { Relational } from '#engines/relational/port.ts'
import { AppError } from '#lib/errors.ts'
import { createLru } from '#lib/lru.ts'
import type { Caller } from '../callers/caller.ts'
import type { Tokens } from '../tokens/tokens.ts'
import { agentKeyPattern, hashAgentKey } from './agent-keys.ts'
import { createKeyLimits, createLastUse } from './trades.ts'

/** Keys that were right when they came last: a flood of wrong ones from the same address does not keep them out. */
const rightMax = 20_000
const bearer = /^Bearer +(svc_\S*)$/i

export type StaticKeys = ReturnType<typeof openStaticKeys>

interface StaticKeysParts {
  relational: Relational
  tokens: Pick<Tokens, 'keyHolder'>
  log: Logger
  /** Milliseconds that only go forward. */
  now?: () => number
}

/** Whether the header has the form of an agent key, right or wrong. */
export function isAgentKey(authorization: string | undefined): boolean {
  return bearer.test(authorization ?? '')
}

/** Close it after the last answer: it notes the last uses. */
export function openStaticKeys({ relational, tokens, log, now }: StaticKeysParts) {
  const lastUse = createLastUse({ relational, log })
  const limits = createKeyLimits(now)
  const right = createLru<string, true>(rightMax)
  const asked = new Map<string, Promise<Caller>>()

  function used(keyHash: string, caller: Caller): Caller {
    right.set(keyHash, true)
    lastUse.note(caller.agentKeyId as string)
    return caller
  }

  async function ask(keyHash: string, takeBack: (() => void) | undefined, found: Promise<Caller>) {
    try {
      const caller = await found
      takeBack?.()
      return used(keyHash, caller)
    } catch (error) {
      if (error instanceof AppError && error.code === 'unauthorized') right.delete(keyHash)
      else takeBack?.()
      throw error
    } finally {
      asked.delete(keyHash)
    }
  }

  function holderOf(keyHash: string, takeBack: (() => void) | undefined): Caller | Promise<Caller> {
    try {
      return tokens.keyHolder(keyHash)
    } catch (error) {
      takeBack?.()
      throw error
    }
  }

  function find(keyHash: string, address: string): Caller | Promise<Caller> {
    const takeBack = right.has(keyHash) ? undefined : limits.admit(keyHash, address, 'wrong agent keys')
    const found = holderOf(keyHash, takeBack)
    if (!(found instanceof Promise)) {
      takeBack?.()
      return used(keyHash, found)
    }
    // Requests that come while the key is looked up count as one.
    const asking = ask(keyHash, takeBack, found)
    asked.set(keyHash, asking)
    return asking
  }

  return {
    /**
     * The agent behind an `Authorization: Bearer svc_…` header; at once when the key is remembered. Throws (or rejects with) AppError
     * `unauthorized` for a malformed, an unknown and a revoked key alike, `rate_limited` after many wrong ones,
     * `relational_engine_unavailable`, `overloaded`.
     */
    authenticate(authorization: string | undefined, address: string): Caller | Promise<Caller> {
      const key = bearer.exec(authorization ?? '')?.[1] ?? ''
      if (!agentKeyPattern.test(key)) throw new AppError('unauthorized', 'The agent key is not valid.')
      const keyHash = hashAgentKey(key)
      return asked.get(keyHash) ?? find(keyHash, address)
    },
    close: () => lastUse.close(),
  }
}
