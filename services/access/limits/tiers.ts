/** What an agent may do by its tier and its own figures: operations a day, in any second, and at once. */

import type { Tier } from '#services/access/agents/agents.ts'
import type { Caller } from '#services/access/callers/caller.ts'

/** null is unlimited. */
export interface AgentLimits {
  /** Operations a UTC day. */
  day: number | null
  /** Operations that begin within any one second. */
  rate: number | null
  /** Operations at once. */
  slots: number | null
}

/** What an agent's limits are made of. */
export type LimitFigure = 'tier' | 'quota' | 'burst' | 'concurrent'

const tierLimits: Record<Tier, AgentLimits> = {
  agent: { day: 10_000, rate: 50, slots: 5 },
  'research-agent': { day: 50_000, rate: 200, slots: 20 },
  'infra-architect': { day: null, rate: null, slots: null },
}

/** `daily` false: where the day's quota does not count. */
export function limitsOf(caller: Pick<Caller, LimitFigure>, daily = true): AgentLimits {
  const { day, rate, slots } = tierLimits[caller.tier]
  return {
    day: daily ? (caller.quota ?? day) : null,
    rate: caller.burst ?? rate,
    slots: caller.concurrent ?? slots,
  }
}

export function isUnlimited({ day, rate, slots }: AgentLimits): boolean {
  return day === null && rate === null && slots === null
}

export function sameLimits(a: AgentLimits, b: AgentLimits): boolean {
  return a.day === b.day && a.rate === b.rate && a.slots === b.slots
}
