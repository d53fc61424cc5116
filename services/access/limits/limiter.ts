/**
 * Decides whether one more operation of an agent may begin, on what this gateway has leased of the agent's limits. The
 * shared row is asked in the background, and while a request waits only when the lease is used up.
 */

import { randomBytes } from 'node:crypto'
import type { Logger } from 'pino'
import type { Relational } from '#engines/relational/port.ts'
import { withTimeout } from '#lib/backoff.ts'
import type { Closeable } from '#lib/resource.ts'
import { startRepeating } from '#runtime/repeat.ts'
import type { Caller } from '#services/access/callers/caller.ts'
import { type AgentLimits, isUnlimited, type LimitFigure, limitsOf } from './lease-rule.ts'
import { createLeasedAgents, type LeasedAgent } from './leased-agents.ts'
import { limitRowsOf, limitsAway, type SharedLimits } from './limit-rows.ts'
import { beginAfterWaiting } from './waiting.ts'

const closeMs = 2_000
const sweepEveryMs = 10 * 60_000

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
  const agents = createLeasedAgents(shared, instance, now)

  function started(agent: LeasedAgent): Operation {
    const running = agent.lease.begin(now())
    agents.begun(agent)
    return { end: () => agent.lease.end(running) }
  }
  async function acquire(agent: LeasedAgent): Promise<Operation> {
    agent.waiting += 1
    try {
      return await beginAfterWaiting(agent, { now, ask: agents.ask, begin: started })
    } finally {
      agent.waiting -= 1
    }
  }

  return {
    daily,
    begin(caller) {
      const limits = limitsOf(caller, daily)
      if (isUnlimited(limits)) return free
      const agent = agents.of(caller.uid, limits)
      return agent.lease.mayBegin(now()) ? started(agent) : acquire(agent)
    },
    status(caller) {
      const limits = limitsOf(caller, daily)
      if (isUnlimited(limits)) return undefined
      const lease = agents.find(caller.uid)?.lease
      return {
        limits,
        dayRest: lease ? lease.dayRest() : limits.day,
        dayLeftMs: lease ? lease.dayLeftMs(now()) : 0,
      }
    },
    async usedToday(caller) {
      const agent = agents.find(caller.uid)
      // What an ask under way reports would be counted twice.
      await agent?.asking?.catch(() => {})
      const used = await shared.usedToday(caller.uid)
      return used + (agent?.lease.dayUnreported() ?? 0)
    },
    running: (caller) => agents.find(caller.uid)?.lease.busy() ?? 0,
    async close() {
      const given = agents.close().then(() => shared.flush())
      await withTimeout(given, closeMs, limitsAway).catch(() => {})
    },
  }
}
