/**
 * The agents whose limits this gateway has leased: asks the shared rows for them, one ask of an agent at a time, and looks
 * at them some times a second: idle leases are returned, leases in use are renewed in time.
 */

import { withTimeout } from '#lib/backoff.ts'
import { deadlines } from '#lib/deadlines.ts'
import { AppError } from '#lib/errors.ts'
import { type AgentLease, createAgentLease } from './agent-lease.ts'
import type { AgentLimits, Limit, MetLimit } from './lease-rule.ts'
import { limitsAway, type SharedLimits } from './limit-rows.ts'

const askTimeoutMs = deadlines.request.limitsMs
/** While the shared rows cannot be had they are asked for this often. */
const awayMs = 250
/** After the shared row gave less than was wanted. */
const refillAgainMs = 50
/** Unused things go back after this time. */
export const idleMs = 200
const sweepEveryMs = 50
const renewWithinMs = 300
/** Asks that give back or renew, under way at once. */
const asksMax = 64
const forgetEveryMs = 10_000
const agentsMax = 100_000

export interface LeasedAgent {
  uid: string
  lease: AgentLease
  asking: Promise<void> | undefined
  /** Requests that wait for a lease. */
  waiting: number
  /** A refusal by the shared row, and until when it is believed. */
  refused: { limit: Limit; until: number } | undefined
  /** What the last answer said of limits that are used up, and when it was asked for. */
  last: { met: readonly MetLimit[]; sentAt: number }
  /** The shared row was not to be had; it is not asked for this agent before then. */
  awayUntil: number
  /** More is not leased ahead before. */
  refillAt: number
}

export function createLeasedAgents(shared: SharedLimits, instance: string, now: () => number) {
  const agents = new Map<string, LeasedAgent>()
  /** Those that may hold something. */
  const active = new Set<LeasedAgent>()
  let holders = 0
  let sweepAsks = 0
  let sweeping: NodeJS.Timeout | undefined

  function ask(agent: LeasedAgent, giveBack = false): Promise<void> {
    agent.asking ??= exchange(agent, giveBack).finally(() => {
      agent.asking = undefined
    })
    return agent.asking
  }
  async function exchange(agent: LeasedAgent, giveBack: boolean): Promise<void> {
    const sentAt = now()
    const request = agent.lease.ask(agent.waiting, giveBack, sentAt)
    activate(agent)
    try {
      const answer = await withTimeout(shared.lease(request), askTimeoutMs, limitsAway)
      agent.lease.answered(request, answer, sentAt)
      agent.last = { met: answer.met, sentAt }
      agent.refillAt = answer.granted < request.wanted ? now() + refillAgainMs : 0
    } catch (error) {
      agent.lease.failed(request, sentAt)
      agent.awayUntil = agent.refillAt = now() + awayMs
      throw error
    }
  }

  /** From now on the active agents are looked at, until none is left. */
  function activate(agent: LeasedAgent): void {
    active.add(agent)
    sweeping ??= setInterval(sweep, sweepEveryMs).unref()
  }
  function sweep(): void {
    const at = now()
    if (active.size === 0) stopSweeping()
    for (const agent of active) {
      if (agent.asking || agent.awayUntil > at) continue
      const idle = at - agent.lease.lastUsedAt() >= idleMs && agent.waiting === 0
      if (idle && agent.lease.holdsUnused()) askInBackground(agent, true)
      else if (agent.lease.runsOut(at, renewWithinMs)) askInBackground(agent, false)
      else if (idle && agent.lease.busy() === 0) active.delete(agent)
    }
  }
  function stopSweeping(): void {
    clearInterval(sweeping)
    sweeping = undefined
  }
  function askInBackground(agent: LeasedAgent, giveBack: boolean): void {
    if (sweepAsks >= asksMax) return
    sweepAsks += 1
    const asked = ask(agent, giveBack).catch(() => {})
    asked.then(() => {
      sweepAsks -= 1
    })
  }

  /** An agent without a lease and without a standing refusal is dropped. */
  function forget(): void {
    const at = now()
    for (const agent of agents.values()) {
      const quiet = at - agent.lease.lastUsedAt() > forgetEveryMs && agent.waiting === 0 && !agent.asking
      if (quiet && !active.has(agent) && !isRefused(agent, at)) agents.delete(agent.uid)
    }
  }
  const forgetting = setInterval(forget, forgetEveryMs).unref()

  return {
    find: (uid: string) => agents.get(uid),
    /** Throws AppError `overloaded` where there are too many. */
    of(uid: string, limits: AgentLimits): LeasedAgent {
      const known = agents.get(uid)
      if (known) {
        if (known.lease.setLimits(limits)) known.refused = undefined
        return known
      }
      if (agents.size >= agentsMax) {
        throw new AppError('overloaded', 'Too many agents are at work; try again in a second.', {
          retryAfter: 1,
        })
      }
      // A lease that was forgotten and made again counts from nothing: it is another holder in the shared row.
      holders += 1
      const agent: LeasedAgent = {
        ...{ uid, lease: createAgentLease(uid, `${instance}-${holders}`, limits), asking: undefined },
        ...{ waiting: 0, refused: undefined, last: { met: [], sentAt: 0 }, awayUntil: 0, refillAt: 0 },
      }
      agents.set(uid, agent)
      return agent
    },
    /** A request that comes meanwhile gets the same answer. Rejects with AppError `relational_engine_unavailable`. */
    ask: (agent: LeasedAgent) => ask(agent),
    /** An operation began: leases more ahead where little is left. */
    begun(agent: LeasedAgent): void {
      activate(agent)
      const at = now()
      if (!agent.asking && agent.refillAt <= at && agent.lease.isLow(at)) ask(agent).catch(() => {})
    },
    /** Returns all leases. */
    async close(): Promise<void> {
      stopSweeping()
      clearInterval(forgetting)
      const givingBack = [...active].map(async (agent) => {
        await agent.asking?.catch(() => {})
        await ask(agent, true)
      })
      await Promise.allSettled(givingBack)
      // An ask of these moments began it again.
      stopSweeping()
    },
  }
}

export function isRefused({ refused }: LeasedAgent, atMs: number): boolean {
  return refused !== undefined && refused.until > atMs
}
