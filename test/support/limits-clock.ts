/** Limiters that share rows in memory, on vitest's fake clock, which tests move. */

import { vi } from 'vitest'
import {
  type LeaseAsk,
  type LimitRow,
  leaseFrom,
  newLimitRow,
  utcDay,
} from '#services/access/limits/lease-rule.ts'
import type { SharedLimits } from '#services/access/limits/limit-rows.ts'
import { createLimiter, type LimitedCaller, type Limiter } from '#services/access/limits/limiter.ts'

export interface SharedWorld {
  agents: Map<string, LimitRow>
  /** Asks that were answered. */
  asks: LeaseAsk[]
  /** While it is set the shared state does not answer. */
  fault: Error | null
  /** Gateways whose asks never arrive again. */
  killed: Set<string>
  /** ms from an ask to its answer. */
  latencyMs: number
  gateway(name: string): Limiter
}

/** Gateways that share one state in memory, as they share a database. Use it under vitest's fake timers. */
export function createSharedWorld(): SharedWorld {
  const world: SharedWorld = {
    agents: new Map(),
    asks: [],
    fault: null,
    killed: new Set(),
    latencyMs: 1,
    gateway: (name) => createLimiter({ shared: sharedOf(world), instance: name, now: () => Date.now() }),
  }
  return world
}

function sharedOf(world: SharedWorld): SharedLimits {
  return {
    async lease(ask) {
      await new Promise((resolve) => setTimeout(resolve, world.latencyMs / 2))
      if (world.killed.has(ask.instance.split('-')[0] as string)) return new Promise(() => {})
      if (world.fault) throw world.fault
      const agent = world.agents.get(ask.key) ?? newLimitRow(utcDay(Date.now()))
      world.agents.set(ask.key, agent)
      world.asks.push(ask)
      const answer = leaseFrom(agent, ask, Date.now())
      await new Promise((resolve) => setTimeout(resolve, world.latencyMs / 2))
      return answer
    },
    async usedToday(key) {
      return world.agents.get(key)?.leased ?? 0
    },
    flush: async () => {},
    sweep: async () => {},
  }
}

export const agentCaller: LimitedCaller = {
  uid: 'agent_1',
  tier: 'agent',
  quota: null,
  burst: null,
  concurrent: null,
}

/** Moves the fake clock, with all timers and what they set going. */
export async function pass(ms: number): Promise<void> {
  await vi.advanceTimersByTimeAsync(ms)
}

/** The result of a request: the operation, or its refusal. */
export type Outcome =
  | { ok: true; at: number; end(): void }
  | { ok: false; at: number; code: string; retryAfter: number }

/** Begins one operation; resolves when it is decided. */
export async function tryBegin(limiter: Limiter, caller: LimitedCaller = agentCaller): Promise<Outcome> {
  try {
    const end = await limiter.begin(caller)
    return { ok: true, at: Date.now(), end }
  } catch (error) {
    const { code, retryAfter } = error as { code: string; retryAfter: number }
    return { ok: false, at: Date.now(), code, retryAfter }
  }
}
