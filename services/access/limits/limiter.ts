/**
 * Decides whether one more operation of an agent may begin, on what this gateway has leased of the agent's limits. The
 * shared row is asked in the background, and while a request waits only when the lease is used up.
 */

import { randomBytes } from 'node:crypto'
import type { Logger } from 'pino'
import type { Relational } from '#engines/relational/port.ts'
import { withTimeout } from '#lib/backoff.ts'
import { deadlines } from '#lib/deadlines.ts'
import { AppError } from '#lib/errors.ts'
import type { Closeable } from '#lib/resource.ts'
import { startRepeating } from '#runtime/repeat.ts'
import type { Caller } from '#services/access/callers/caller.ts'
import type { Wanted } from './agent-lease.ts'
import { type LeasedAgent, newLeasedAgent, startLeaseSweep } from './leased-agents.ts'
import type { SharedLimits } from './limit-rows.ts'
import { limitRowsOf } from './shared-rows.ts'
import { type AgentLimits, isUnlimited, type LimitFigure, limitsOf } from './tiers.ts'
import { beginAfterWaiting, limitsAway } from './waiting.ts'

const askTimeoutMs = deadlines.request.limitsMs
/** While the shared rows cannot be had they are asked for this often. */
const awayMs = 250
const closeMs = 2_000
const sweepEveryMs = 10 * 60_000
/** After the shared row gave less than was wanted. */
const refillAgainMs = 50
const callersMax = 100_000

export type LimitedCaller = Pick<Caller, 'uid' | LimitFigure>

export interface Operation {
  /** Frees the slot; only the first call counts. */
  end(): void
}

/** What is left of an agent's limits, for headers. */
export interface LimitStatus {
  limits: AgentLimits
  /** Operations of today that are left; null: no limit. */
  dayRest: number | null
  dayLeftMs: number
}

export interface Limiter extends Closeable {
  /** False: the day's quota does not count here. */
  daily: boolean
  /**
   * Counts one operation that begins; at once on the usual request. Throws (or rejects with) LimitRefusal, or AppError
   * `relational_engine_unavailable` when the lease is used up and the shared rows cannot be had.
   */
  begin(caller: LimitedCaller): Operation | Promise<Operation>
  /** Undefined for callers without limits. */
  status(caller: LimitedCaller): LimitStatus | undefined
  /** Operations that began today, at all gateways. */
  usedToday(caller: LimitedCaller): Promise<number>
  /** Operations of this agent that run here now. */
  running(caller: LimitedCaller): number
}

interface LimiterParts {
  shared: SharedLimits
  /** Another one for each limiter, also within one process. */
  instance: string
  /** False: operations here take nothing of the day's quota. Default true. */
  daily?: boolean
  /** Milliseconds that only go forward. */
  now?: () => number
}

const free: Operation = { end() {} }

/** A limiter over the rows of the database, which it also clears of those that are long over. */
export function openLimiter(
  { relational, log }: { relational: Relational; log: Logger },
  { daily = true }: Pick<LimiterParts, 'daily'>,
): Limiter {
  const shared = limitRowsOf(relational)
  const limiter = createLimiter({ shared, daily, instance: randomBytes(6).toString('hex') })
  const sweep = { what: 'sweep of limits', everyMs: sweepEveryMs, firstAfterMs: sweepEveryMs, log }
  const sweeping = startRepeating(sweep, shared.sweep)
  return {
    ...limiter,
    async close() {
      await sweeping.close()
      await limiter.close()
    },
  }
}

export function createLimiter(parts: LimiterParts): Limiter {
  const { shared, instance, daily = true, now = () => performance.now() } = parts
  const agents = new Map<string, LeasedAgent>()
  const active = new Set<LeasedAgent>()
  let awayUntil = 0
  let holders = 0

  function agentOf(caller: LimitedCaller, limits: AgentLimits): LeasedAgent {
    const known = agents.get(caller.uid)
    if (known) {
      if (known.lease.setLimits(limits)) known.refused = { day: 0, second: 0, concurrent: 0 }
      return known
    }
    if (agents.size >= callersMax) {
      throw new AppError('overloaded', 'Too many agents are at work; try again in a second.', {
        retryAfter: 1,
      })
    }
    // A lease that was forgotten and made again counts from nothing: it is another holder in the shared row.
    holders += 1
    const agent = newLeasedAgent(caller.uid, `${instance}-${holders}`, limits)
    agents.set(caller.uid, agent)
    return agent
  }

  function started(agent: LeasedAgent): Operation {
    const begunAt = now()
    const running = agent.lease.begin(begunAt)
    sweeping.activate(agent)
    const mayRefill = !agent.asking && agent.refillAt <= begunAt
    if (mayRefill && agent.lease.isLow(begunAt)) void ask(agent, {}).catch(() => {})
    let ended = false
    return {
      end() {
        if (ended) return
        ended = true
        agent.lease.end(running, now())
      },
    }
  }

  /** One ask of an agent at a time: a request that comes meanwhile waits for its answer. */
  function ask(agent: LeasedAgent, given: Pick<Wanted, 'giveBack'>): Promise<void> {
    agent.asking ??= exchange(agent, { waiting: agent.waiting, ...given }).finally(() => {
      agent.asking = undefined
    })
    return agent.asking
  }
  async function exchange(agent: LeasedAgent, wanted: Wanted): Promise<void> {
    const sentAt = now()
    const request = agent.lease.ask(wanted, sentAt)
    sweeping.activate(agent)
    try {
      const answer = await withTimeout(shared.lease(request), askTimeoutMs, limitsAway)
      agent.lease.answered(request, answer, sentAt)
      agent.last = { ask: request, answer, sentAt }
      const short = answer.rate < request.rateWanted || answer.dayGranted < request.dayWanted
      agent.refillAt = short ? now() + refillAgainMs : 0
    } catch (error) {
      agent.lease.failed(request, sentAt)
      awayUntil = agent.awayUntil = agent.refillAt = now() + awayMs
      throw error
    }
  }
  async function acquire(agent: LeasedAgent): Promise<Operation> {
    agent.waiting += 1
    try {
      return await beginAfterWaiting(agent, { now, ask: (one) => ask(one, {}), begin: started })
    } finally {
      agent.waiting -= 1
    }
  }

  const sweeping = startLeaseSweep({
    agents,
    active,
    now,
    awayUntil: () => awayUntil,
    ask: (agent, giveBack) => ask(agent, { giveBack }),
  })

  return {
    daily,
    begin(caller) {
      const limits = limitsOf(caller, daily)
      if (isUnlimited(limits)) return free
      const agent = agentOf(caller, limits)
      return agent.lease.lacking(now()).length === 0 ? started(agent) : acquire(agent)
    },
    status(caller) {
      const limits = limitsOf(caller, daily)
      if (isUnlimited(limits)) return undefined
      const lease = agents.get(caller.uid)?.lease
      return {
        limits,
        dayRest: lease ? lease.dayRest() : limits.day,
        dayLeftMs: lease ? lease.dayLeftMs(now()) : 0,
      }
    },
    async usedToday(caller) {
      const agent = agents.get(caller.uid)
      // What an ask under way reports would be counted twice.
      await agent?.asking?.catch(() => {})
      const used = await shared.usedToday(caller.uid)
      return used + (agent?.lease.dayUnreported() ?? 0)
    },
    running: (caller) => agents.get(caller.uid)?.lease.busy() ?? 0,
    async close() {
      sweeping.stop()
      const givingBack = [...active].map(async (agent) => {
        await agent.asking?.catch(() => {})
        await ask(agent, { giveBack: true })
      })
      const given = Promise.allSettled(givingBack).then(() => shared.flush())
      await withTimeout(given, closeMs, limitsAway).catch(() => {})
    },
  }
}
