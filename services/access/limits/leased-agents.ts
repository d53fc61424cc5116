/**
 * The agents whose limits this gateway has leased: asks the shared rows for them, one ask of an agent at a time, and looks
 * at them some times a second: idle leases are returned, leases in use are renewed in time. A request whose agent's lease is
 * used up asks, waits a little for what another gateway holds unused, and is refused otherwise.
 */

import { setImmediate as nextTurn } from 'node:timers/promises'
import { sleep, withTimeout } from '#lib/backoff.ts'
import { deadlines } from '#lib/deadlines.ts'
import { AppError, type ErrorCode } from '#lib/errors.ts'
import { type AgentLease, createAgentLease } from './agent-lease.ts'
import { type AgentLimits, type Limit, leaseLifeMs, type MetLimit } from './lease-rule.ts'
import { limitsAway, type SharedLimits } from './limit-rows.ts'

const askTimeoutMs = deadlines.request.limitsMs
/** While the shared rows cannot be had they are asked for this often. */
const awayMs = 250
/** After the shared row gave less than was wanted. */
const refillAgainMs = 50
/** Unused things go back after this time. */
const idleMs = 200
const sweepEveryMs = 50
const renewWithinMs = 300
/** Asks that give back or renew, under way at once. */
const asksMax = 64
const forgetEveryMs = 10_000
const agentsMax = 100_000
/** What another gateway holds unused is waited for this long. */
const elsewhereMs = 600
const elsewherePollMs = 40
/** A request whose answers from the shared row all come too late is answered that it is away. */
const lateMs = 3_000
/** Requests of an agent that wait for what another gateway holds. */
const waitingMax = 50
/** A refusal is believed for at least this time before the shared row is asked again. */
const refusalMsMin = 50
/** Bounds of the estimate that `too_many_concurrent` names. */
const concurrentWaitMs = { least: 50, most: 5_000 }

interface LeasedAgent {
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
    const over = () => {
      sweepAsks -= 1
    }
    ask(agent, giveBack).then(over, over)
  }

  function started(agent: LeasedAgent): () => void {
    const at = now()
    const end = agent.lease.begin(at)
    activate(agent)
    // Leases more ahead where little is left.
    if (!agent.asking && agent.refillAt <= at && agent.lease.isLow(at)) ask(agent).catch(() => {})
    return end
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

  /** Throws AppError `overloaded` where there are too many. */
  function agentOf(uid: string, limits: AgentLimits): LeasedAgent {
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
    const agent = newAgent(uid, createAgentLease(uid, `${instance}-${holders}`, limits))
    agents.set(uid, agent)
    return agent
  }

  return {
    find: (uid: string) => agents.get(uid),
    /**
     * Begins an operation and resolves with what ends it; at once while the lease lasts. Throws (or rejects with) LimitRefusal,
     * AppError `overloaded`, or `relational_engine_unavailable` when the lease is used up and the shared rows cannot be had.
     */
    begin(uid: string, limits: AgentLimits): (() => void) | Promise<() => void> {
      const agent = agentOf(uid, limits)
      return agent.lease.mayBegin(now()) ? started(agent) : beginAfterWaiting(agent, now, ask, started)
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

function newAgent(uid: string, lease: AgentLease): LeasedAgent {
  const nothing = { asking: undefined, waiting: 0, refused: undefined, awayUntil: 0, refillAt: 0 }
  return { uid, lease, last: { met: [], sentAt: 0 }, ...nothing }
}

function isRefused({ refused }: LeasedAgent, atMs: number): boolean {
  return refused !== undefined && refused.until > atMs
}

/** Resolves with what ends the operation that began, at the moment when nothing is lacking any more. */
async function beginAfterWaiting(
  agent: LeasedAgent,
  now: () => number,
  ask: (agent: LeasedAgent) => Promise<void>,
  started: (agent: LeasedAgent) => () => void,
): Promise<() => void> {
  const giveUpAt = now() + elsewhereMs
  const lateAt = now() + lateMs
  agent.waiting += 1
  try {
    for (let asked = false; ; ) {
      const at = now()
      if (agent.lease.mayBegin(at)) return started(agent)
      if (isRefused(agent, at) && agent.lease.lacks(agent.refused!.limit, at)) throw refusalOf(agent, at)
      if (agent.awayUntil > at || at > lateAt) throw limitsAway()
      // An answer that was on its way before this request came may not have counted it.
      if (!asked && agent.asking) await agent.asking.catch(() => {})
      else {
        await ask(agent)
        asked = true
        await waitOrRefuse(agent, giveUpAt, now)
      }
    }
  } finally {
    agent.waiting -= 1
  }
}

/** After an answer: waits a little when other gateways may return leases, else notes the refusal and throws it. */
async function waitOrRefuse(agent: LeasedAgent, giveUpAt: number, now: () => number): Promise<void> {
  // An answer that was just written to its end frees its slot in this turn.
  if (!agent.lease.mayBegin(now())) await nextTurn()
  const at = now()
  const { met, sentAt } = agent.last
  const lacking = met.filter(({ limit }) => agent.lease.lacks(limit, at))
  // Nothing is refused by an answer that gave what others have taken since, or so late that what it gave has run out.
  if (lacking.length === 0 || at - sentAt >= leaseLifeMs) return
  if (agent.waiting <= waitingMax && at < giveUpAt && lacking.every(({ elsewhere }) => elsewhere)) {
    await sleep(elsewherePollMs)
    return
  }
  const { limit, waitMs, elsewhere } = lacking[0]!
  const believedMs = Math.max(refusalMsMin, elsewhere ? Math.min(idleMs, waitMs) : waitMs)
  agent.refused = { limit, until: at + believedMs }
  throw refusalOf(agent, at)
}

function refusalOf({ refused, lease }: LeasedAgent, at: number): LimitRefusal {
  const { limit, until } = refused!
  if (limit !== 'concurrent') return new LimitRefusal(limit, Math.max(1, until - at))
  // The end of an operation is unknown: the oldest may run as long again.
  const ranMs = at - (lease.oldest() ?? at)
  return new LimitRefusal(limit, Math.min(concurrentWaitMs.most, Math.max(concurrentWaitMs.least, ranMs)))
}

const refusals: Record<Limit, { code: ErrorCode; message: string }> = {
  day: {
    code: 'quota_exceeded',
    message: "The agent's operations of this UTC day are used up: wait for retryAfter seconds.",
  },
  second: {
    code: 'rate_limited',
    message: 'Too many operations began within one second: wait for retryAfter seconds.',
  },
  concurrent: {
    code: 'too_many_concurrent',
    message: "Too many of the agent's operations run at once: wait for retryAfter seconds.",
  },
}

/** A 429 of the agent's limits: the request was no operation. */
export class LimitRefusal extends AppError {
  readonly limit: Limit
  constructor(limit: Limit, waitMs: number) {
    // Rounded up to whole milliseconds: a caller that waits this long comes after the time, not at it.
    super(refusals[limit].code, refusals[limit].message, { retryAfter: Math.ceil(waitMs + 1) / 1_000 })
    this.limit = limit
  }
}
