/**
 * The agents whose limits this gateway has leased, looked at some times a second: what is idle is given back, what is in
 * use is renewed in time.
 */

import { type AgentLease, createAgentLease, type Limit } from './agent-lease.ts'
import type { LeaseAnswer, LeaseAsk } from './lease-rule.ts'
import type { AgentLimits } from './tiers.ts'

/** Unused things go back after this time. */
export const idleMs = 200
const sweepEveryMs = 50
const renewWithinMs = 300
/** Asks that give back or renew, under way at once. */
const asksMax = 64
const forgetEveryMs = 10_000

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

interface SweepParts {
  agents: Map<string, LeasedAgent>
  /** Those that may hold something. */
  active: Set<LeasedAgent>
  now(): number
  /** The shared rows cannot be had until then. */
  awayUntil(): number
  ask(agent: LeasedAgent, giveBack: boolean): Promise<void>
}

interface LeaseSweep {
  /** From now on the active agents are looked at, until none is left. */
  activate(agent: LeasedAgent): void
  stop(): void
}

export function startLeaseSweep({ agents, active, now, awayUntil, ask }: SweepParts): LeaseSweep {
  let asks = 0
  let timer: NodeJS.Timeout | undefined

  function askInBackground(agent: LeasedAgent, giveBack: boolean): void {
    if (asks >= asksMax) return
    asks += 1
    ask(agent, giveBack)
      .catch(() => {})
      .finally(() => {
        asks -= 1
      })
  }
  function sweep(): void {
    const at = now()
    if (at < awayUntil()) return
    if (active.size === 0) rest()
    for (const agent of active) {
      if (agent.asking) continue
      const idle = at - agent.lease.lastUsedAt() >= idleMs && agent.waiting === 0
      if (idle && agent.lease.holdsUnused()) askInBackground(agent, true)
      else if (agent.lease.runsOut(at, renewWithinMs)) askInBackground(agent, false)
      else if (idle && agent.lease.busy() === 0) active.delete(agent)
    }
  }
  /** What is known of an agent is worth nothing once it holds nothing and no refusal holds. */
  function forget(): void {
    const at = now()
    for (const agent of agents.values()) {
      const quiet = at - agent.lease.lastUsedAt() > forgetEveryMs && agent.waiting === 0 && !agent.asking
      const refused = Math.max(agent.refused.second, agent.refused.day) > at
      if (quiet && !refused && !active.has(agent)) agents.delete(agent.uid)
    }
  }

  function rest(): void {
    clearInterval(timer)
    timer = undefined
  }

  const forgetting = setInterval(forget, forgetEveryMs)
  forgetting.unref()
  return {
    activate(agent) {
      active.add(agent)
      timer ??= setInterval(sweep, sweepEveryMs).unref()
    },
    stop() {
      rest()
      clearInterval(forgetting)
    },
  }
}
