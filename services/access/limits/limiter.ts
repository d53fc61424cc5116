/**
 * Decides whether one more operation of an agent may begin, on what this gateway has leased of the agent's limits, and makes
 * the routes of a scope count as operations of their caller, with headers for the rest of the limits. The shared row is asked in
 * the background, and while a request waits only when the lease is used up.
 */

import { randomBytes } from 'node:crypto'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import type { Logger } from 'pino'
import type { Relational } from '#engines/relational/port.ts'
import { withTimeout } from '#lib/backoff.ts'
import { describeScope } from '#runtime/http/api/facts.ts'
import { startRepeating } from '#runtime/repeat.ts'
import type { Tier } from '#services/access/agents/agents.ts'
import { type Caller, callerOf } from '#services/access/callers/caller.ts'
import type { AgentLimits } from './lease-rule.ts'
import { createLeasedAgents, LimitRefusal } from './leased-agents.ts'
import { limitRowsOf, limitsAway, type SharedLimits } from './limit-rows.ts'

const closeMs = 2_000
const sweepEveryMs = 10 * 60_000

/** What an agent's limits are made of. */
type LimitFigure = 'tier' | 'quota' | 'burst' | 'concurrent'

const tierLimits: Record<Tier, AgentLimits> = {
  agent: { day: 10_000, rate: 50, slots: 5 },
  'research-agent': { day: 50_000, rate: 200, slots: 20 },
  'infra-architect': { day: null, rate: null, slots: null },
}

/** An agent's own figures win over its tier's. `daily` false: where the day's quota does not count. */
export function limitsOf(caller: Pick<Caller, LimitFigure>, daily = true): AgentLimits {
  const { day, rate, slots } = tierLimits[caller.tier]
  return {
    day: daily ? (caller.quota ?? day) : null,
    rate: caller.burst ?? rate,
    slots: caller.concurrent ?? slots,
  }
}

function isUnlimited({ day, rate, slots }: AgentLimits): boolean {
  return day === null && rate === null && slots === null
}

export type LimitedCaller = Pick<Caller, 'uid' | LimitFigure>

export type Limiter = ReturnType<typeof createLimiter>

interface LimiterParts {
  shared: SharedLimits
  /** Another one for each limiter, also within one process. */
  instance: string
  /** False: operations here take nothing of the day's quota. Default true. */
  daily?: boolean
  /** Milliseconds that only go forward. */
  now?: () => number
}

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

export function createLimiter(parts: LimiterParts) {
  const { shared, instance, daily = true, now = () => performance.now() } = parts
  const agents = createLeasedAgents(shared, instance, now)
  return {
    /** False: the day's quota does not count here. */
    daily,
    /**
     * Counts one operation that begins; at once on the usual request. The result ends it; only its first call counts. Throws
     * (or rejects with) LimitRefusal, or AppError `relational_engine_unavailable` when the lease is used up and the shared rows
     * cannot be had.
     */
    begin(caller: LimitedCaller): (() => void) | Promise<() => void> {
      const limits = limitsOf(caller, daily)
      return isUnlimited(limits) ? () => {} : agents.begin(caller.uid, limits)
    },
    /** The rest of the caller's limits, for headers; undefined for callers without limits. */
    status(caller: LimitedCaller) {
      const limits = limitsOf(caller, daily)
      if (isUnlimited(limits)) return undefined
      const lease = agents.find(caller.uid)?.lease
      return {
        limits,
        /** Operations of today that are left; null: no limit. */
        dayRest: lease ? lease.dayRest() : limits.day,
        dayLeftMs: lease ? lease.dayLeftMs(now()) : 0,
        /** Operations of this agent that run here now. */
        running: lease?.busy() ?? 0,
      }
    },
    /** Operations that began today, at all gateways. */
    async usedToday(caller: LimitedCaller): Promise<number> {
      const agent = agents.find(caller.uid)
      // What an ask under way reports would be counted twice.
      await agent?.asking?.catch(() => {})
      const used = await shared.usedToday(caller.uid)
      return used + (agent?.lease.dayUnreported() ?? 0)
    },
    async close(): Promise<void> {
      const given = agents.close().then(() => shared.flush())
      await withTimeout(given, closeMs, limitsAway).catch(() => {})
    },
  }
}

declare module 'fastify' {
  interface FastifyRequest {
    /** True when a limit refused the request before it began: then it is no operation. */
    unmetered: boolean
    /** Ends the operation of the request before its answer is over. */
    endOperation: (() => void) | null
  }
}

const limitHeaders = {
  RateLimit:
    'What is left of the agent’s limits (draft-ietf-httpapi-ratelimit-headers): `r` operations for `t` seconds, or `r` more ' +
    'at once. Absent for an agent without limits.',
  'RateLimit-Policy':
    'The agent’s limits: `q` operations in `w` seconds, or `q` at once. Absent for an agent without limits.',
}

/**
 * Register it behind the key: each request of `scope` counts as one operation, or is refused before its body is read,
 * with 429 or 503 (`relational_engine_unavailable`).
 */
export function limitRate(scope: FastifyInstance, limiter: Limiter): void {
  if (!scope.hasRequestDecorator('unmetered')) {
    scope.decorateRequest('unmetered', false)
    scope.decorateRequest('endOperation', null)
  }
  describeScope(scope, {
    problems: [
      'rate_limited',
      'too_many_concurrent',
      ...(limiter.daily ? (['quota_exceeded'] as const) : []),
      'relational_engine_unavailable',
    ],
    headers: limitHeaders,
  })
  scope.addHook('onRequest', (request, reply, done) => {
    const over = whenOver(reply)
    request.endOperation = over.end
    const begun = (end: () => void) => {
      over.ends(end)
      describe(request, reply)
      done()
    }
    const refused = (error: unknown) => {
      request.unmetered = true
      describe(request, reply, error instanceof LimitRefusal ? error : undefined)
      done(error as Error)
    }
    let operation: ReturnType<Limiter['begin']>
    try {
      operation = limiter.begin(callerOf(request))
    } catch (error) {
      return refused(error)
    }
    if (operation instanceof Promise) operation.then(begun, refused)
    else begun(operation)
  })

  function describe(request: FastifyRequest, reply: FastifyReply, refusal?: LimitRefusal): void {
    const status = limiter.status(callerOf(request))
    if (!status) return
    reply.header('ratelimit-policy', rateLimitPolicy(status.limits))
    const left = rateLimitHeader(status, refusal)
    if (left !== undefined) reply.header('ratelimit', left)
  }
}

/** The operation ends with its answer: when it is written, or when its connection is gone, even before it began. */
function whenOver(reply: FastifyReply): { ends(operation: () => void): void; end(): void } {
  let endOperation = () => {}
  let over = false
  const end = () => {
    over = true
    endOperation()
  }
  reply.raw.once('finish', end)
  reply.raw.once('close', end)
  return {
    end,
    ends(operation) {
      endOperation = operation
      if (over) operation()
    },
  }
}

/** The RateLimit-Policy field of draft-ietf-httpapi-ratelimit-headers. */
function rateLimitPolicy({ day, rate, slots }: AgentLimits): string {
  return [
    ...(rate === null ? [] : [`"second";q=${rate};w=1`]),
    ...(day === null ? [] : [`"day";q=${day};w=86400`]),
    ...(slots === null ? [] : [`"concurrent";q=${slots};qu="concurrent-requests"`]),
  ].join(', ')
}

/**
 * The RateLimit field: the rest of the day, or where that does not count, how many more may run here at once; a
 * refusal names the limit that was met first.
 */
function rateLimitHeader(
  { limits, dayRest, dayLeftMs, running }: NonNullable<ReturnType<Limiter['status']>>,
  refusal?: LimitRefusal,
): string | undefined {
  const day = dayRest === null ? undefined : `"day";r=${dayRest};t=${Math.ceil(dayLeftMs / 1_000)}`
  const slots = limits.slots === null ? undefined : `"concurrent";r=${Math.max(0, limits.slots - running)}`
  if (!refusal) return day ?? slots
  const met = `"${refusal.limit}";r=0;t=${Math.ceil(refusal.retryAfter ?? 0)}`
  return refusal.limit === 'day' || day === undefined ? met : `${met}, ${day}`
}

/** For an answer that goes on, as a stream does: from now on it holds no slot of the caller's concurrency. */
export function endOperation(request: FastifyRequest): void {
  request.endOperation?.()
}
