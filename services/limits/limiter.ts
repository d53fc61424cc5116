/**
 * Callers in; permission to begin one operation, or a refusal, out. Decided on what this gateway has leased: the shared
 * state is asked off the request's way, and on it only when the lease is used up.
 */

import { setImmediate as nextTurn } from 'node:timers/promises'
import { sleep, withTimeout } from '#lib/backoff.ts'
import { AppError } from '#lib/errors.ts'
import type { Closeable } from '#lib/resource.ts'
import type { Caller } from '#services/identity/gateway-keys/gateway-keys.ts'
import { createAgentLease, type Limit, type Wanted } from './agent-lease.ts'
import { type Agent, idleMs, startSweep } from './lease-sweep.ts'
import { concurrentWait, LimitRefusal } from './refusal.ts'
import { type LeaseAnswer, permitLifeMs, type SharedLimits } from './shared-limits.ts'
import { type AgentLimits, isUnlimited, limitsOf } from './tiers.ts'

const askTimeoutMs = 1_500
/** While the shared state does not answer it is asked this often. */
const awayMs = 250
/** What another gateway holds unused is waited for so long. */
const elsewhereMs = 600
const elsewherePollMs = 40
/** A request whose answers from the shared state all come too late is told that it is away. */
const lateMs = 3_000
const closeMs = 2_000
/** Requests of an agent that wait for what another gateway holds. */
const waitingMax = 50
/** After the shared state gave less than was wanted. */
const refillAgainMs = 50
const callersMax = 100_000

export type LimitedCaller = Pick<Caller, 'uid' | 'tier' | 'quota'>

export interface Operation {
  /** Frees the slot; only the first call counts. */
  end(): void
}

export interface Standing {
  limits: AgentLimits
  /** Operations of today that are left; null: no limit. */
  dayRest: number | null
  dayLeftMs: number
}

export interface Limiter extends Closeable {
  /**
   * Counts one operation that begins; at once on the usual request. Throws (or rejects with) LimitRefusal, or AppError
   * `relational_engine_unavailable` when the lease is used up and the shared state is away.
   */
  begin(caller: LimitedCaller): Operation | Promise<Operation>
  /** For headers; undefined for callers without limits. */
  standing(caller: LimitedCaller): Standing | undefined
  /** Operations that began today, at all gateways. */
  usedToday(caller: LimitedCaller): Promise<number>
  /** Operations of this agent that run here now. */
  running(caller: LimitedCaller): number
}

export interface LimiterParts {
  shared: SharedLimits
  instance: string
  /** Milliseconds that only go forward. */
  now?: () => number
}

const free: Operation = { end() {} }

export function createLimiter({ shared, instance, now = () => performance.now() }: LimiterParts): Limiter {
  const agents = new Map<string, Agent>()
  const active = new Set<Agent>()
  let awayUntil = 0
  let holders = 0

  function agentOf(caller: LimitedCaller, limits: AgentLimits): Agent {
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
    // A lease that was forgotten and made anew counts from nothing: it is another holder to the shared state.
    holders += 1
    const lease = createAgentLease(caller.uid, `${instance}-${holders}`, limits, shared.rateShare)
    const refused = { day: 0, second: 0, concurrent: 0 }
    const agent = {
      uid: caller.uid,
      lease,
      asking: undefined,
      waiting: 0,
      refused,
      answer: undefined,
      sentAt: 0,
      awayUntil: 0,
      refillAt: 0,
    }
    agents.set(caller.uid, agent)
    return agent
  }

  function started(agent: Agent): Operation {
    const begunAt = now()
    const running = agent.lease.begin(begunAt)
    active.add(agent)
    if (agent.lease.isLow(begunAt) && mayRefill(agent, begunAt)) void ask(agent, {}).catch(() => {})
    let ended = false
    return {
      end() {
        if (ended) return
        ended = true
        agent.lease.end(running, now())
      },
    }
  }
  function mayRefill(agent: Agent, at: number): boolean {
    return !agent.asking && agent.refillAt <= at
  }

  /** One ask of an agent at a time: whoever comes meanwhile waits for its answer. */
  function ask(agent: Agent, given: Pick<Wanted, 'giveBack'>): Promise<void> {
    agent.asking ??= exchange(agent, { waiting: agent.waiting, ...given }).finally(() => {
      agent.asking = undefined
    })
    return agent.asking
  }
  async function exchange(agent: Agent, wanted: Wanted): Promise<void> {
    const sentAt = now()
    const request = agent.lease.ask(wanted, sentAt)
    active.add(agent)
    try {
      const answer = await withTimeout(shared.lease(request), askTimeoutMs, away)
      agent.lease.answered(request, answer, sentAt)
      agent.answer = answer
      agent.sentAt = sentAt
      const short = answer.rate < request.rate_wanted || answer.day_granted < request.day_wanted
      agent.refillAt = short ? now() + refillAgainMs : 0
    } catch (error) {
      agent.lease.failed(request, sentAt)
      awayUntil = agent.awayUntil = agent.refillAt = now() + awayMs
      throw error
    }
  }

  async function acquire(agent: Agent): Promise<Operation> {
    const giveUpAt = now() + elsewhereMs
    const lateAt = now() + lateMs
    agent.waiting += 1
    try {
      for (let asked = false; ; ) {
        const lacks = agent.lease.lacking(now())
        if (lacks.length === 0) return started(agent)
        const believed = lacks.find((lack) => agent.refused[lack] > now())
        if (believed) throw refusalOf(agent, believed)
        if (agent.awayUntil > now() || now() > lateAt) throw away()
        // An answer that was on its way before this request came may not have heard of it.
        if (!asked && agent.asking) await agent.asking.catch(() => {})
        else {
          await ask(agent, {})
          asked = true
          const refusal = await settle(agent, giveUpAt)
          if (refusal) throw refusal
        }
      }
    } finally {
      agent.waiting -= 1
    }
  }
  /** After an answer: waits a little when what is lacking may come back from elsewhere, else notes the refusal. */
  async function settle(agent: Agent, giveUpAt: number): Promise<LimitRefusal | undefined> {
    if (agent.lease.lacking(now()).length === 0) return undefined
    // An answer that was just written to its end frees its slot in this turn.
    await nextTurn()
    const at = now()
    const lacks = agent.lease.lacking(at)
    const first = lacks[0]
    if (first === undefined) return undefined
    // So late that what it brought has run out: that is no refusal.
    if (at - agent.sentAt >= permitLifeMs) return undefined
    const answer = agent.answer as LeaseAnswer
    const few = agent.waiting <= waitingMax
    if (few && at < giveUpAt && lacks.every((lack) => mayComeBack(lack, answer))) {
      await sleep(elsewherePollMs)
      return undefined
    }
    for (const lack of lacks) {
      agent.refused[lack] = Math.max(
        agent.refused[lack],
        at + shared.refusalMsMin,
        at + believedMs(agent, lack, at),
      )
    }
    return refusalOf(agent, first)
  }
  function refusalOf(agent: Agent, limit: Limit): LimitRefusal {
    const at = now()
    const left = agent.refused[limit] - at
    if (limit !== 'concurrent') return new LimitRefusal(limit, Math.max(1, left))
    const oldest = agent.lease.oldest()
    return new LimitRefusal(
      limit,
      concurrentWait(agent.lease.typicalMs(), oldest === undefined ? 0 : at - oldest),
    )
  }

  const sweeping = startSweep({
    agents,
    active,
    now,
    awayUntil: () => awayUntil,
    ask: (agent, giveBack) => ask(agent, { giveBack }),
  })

  return {
    begin(caller) {
      const limits = limitsOf(caller)
      if (isUnlimited(limits)) return free
      const agent = agentOf(caller, limits)
      const lacks = agent.lease.lacking(now())
      if (lacks.length === 0) return started(agent)
      return acquire(agent)
    },
    standing(caller) {
      const limits = limitsOf(caller)
      if (isUnlimited(limits)) return undefined
      const lease = agents.get(caller.uid)?.lease
      return {
        limits,
        dayRest: lease ? lease.dayRest() : limits.day,
        dayLeftMs: lease ? lease.dayLeftMs(now()) : 0,
      }
    },
    async usedToday(caller) {
      const used = await shared.usedToday(caller.uid)
      return used + (agents.get(caller.uid)?.lease.dayUnreported() ?? 0)
    },
    running: (caller) => agents.get(caller.uid)?.lease.busy() ?? 0,
    async close() {
      sweeping.stop()
      const givingBack = [...active].map(async (agent) => {
        await agent.asking?.catch(() => {})
        await ask(agent, { giveBack: true })
      })
      await withTimeout(Promise.allSettled(givingBack), closeMs, away).catch(() => {})
      await shared.close()
    },
  }
}

/** For how long the shared state need not be asked again. When an operation ends, nobody knows. */
function believedMs(agent: Agent, lack: Limit, at: number): number {
  const answer = agent.answer as LeaseAnswer
  if (lack === 'concurrent') return 0
  const waitMs = lack === 'day' ? agent.lease.dayLeftMs(at) : answer.rate_wait_ms
  return mayComeBack(lack, answer) ? Math.min(idleMs, waitMs) : waitMs
}

function mayComeBack(lack: Limit, answer: LeaseAnswer): boolean {
  if (lack === 'day') return answer.day_elsewhere
  return lack === 'second' ? answer.rate_elsewhere : answer.slots_elsewhere
}

function away(): AppError {
  return new AppError('relational_engine_unavailable', 'The limits cannot be counted now.', { retryAfter: 1 })
}
