/** An agent as this gateway knows it: its lease, the ask that is under way, and the refusals that still hold. */

import { type AgentLease, createAgentLease, type Limit } from './agent-lease.ts'
import type { LeaseAnswer, LeaseAsk } from './lease-rule.ts'
import type { AgentLimits } from './tiers.ts'

export interface LeasedAgent {
  uid: string
  lease: AgentLease
  asking: Promise<void> | undefined
  /** Requests that wait for what is lacking. */
  waiting: number
  /** Until when a refusal by the shared row is believed. */
  refused: Record<Limit, number>
  /** The last ask that was answered, and when it was sent. */
  last: { ask: LeaseAsk; answer: LeaseAnswer; sentAt: number } | undefined
  /** The shared row was not to be had; it is not asked for this agent before then. */
  awayUntil: number
  /** More is not leased ahead before. */
  refillAt: number
}

export function newLeasedAgent(uid: string, instance: string, limits: AgentLimits): LeasedAgent {
  return {
    uid,
    lease: createAgentLease(uid, instance, limits),
    asking: undefined,
    waiting: 0,
    refused: { day: 0, second: 0, concurrent: 0 },
    last: undefined,
    awayUntil: 0,
    refillAt: 0,
  }
}
