/** Makes the routes of a scope count as operations of their caller's limits, with the headers that say what is left. */

import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { LRUCache } from 'lru-cache'
import { describeScope } from '#runtime/http/api/facts.ts'
import { callerOf } from '#services/access/callers/caller.ts'
import type { AgentLimits } from './lease-rule.ts'
import type { Limiter, LimitStatus, Operation } from './limiter.ts'
import { LimitRefusal } from './waiting.ts'

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
    let begun: Operation | Promise<Operation>
    const over = whenOver(reply)
    request.endOperation = over.end
    try {
      begun = limiter.begin(callerOf(request))
    } catch (error) {
      return done(refused(request, reply, error))
    }
    if (!(begun instanceof Promise)) {
      over.ends(begun)
      describe(request, reply)
      return done()
    }
    begun.then(
      (operation) => {
        over.ends(operation)
        describe(request, reply)
        done()
      },
      (error) => done(refused(request, reply, error)),
    )
  })

  function describe(request: FastifyRequest, reply: FastifyReply, refusal?: LimitRefusal): void {
    const status = limiter.status(callerOf(request))
    if (!status) return
    reply.header('ratelimit-policy', rateLimitPolicy(status.limits))
    const left = rateLimitHeader(status, limiter.running(callerOf(request)), refusal)
    if (left !== undefined) reply.header('ratelimit', left)
  }

  function refused(request: FastifyRequest, reply: FastifyReply, error: unknown): Error {
    request.unmetered = true
    describe(request, reply, error instanceof LimitRefusal ? error : undefined)
    return error as Error
  }
}

/** The operation ends with its answer: when it is written, or when its connection is gone, even before it began. */
function whenOver(reply: FastifyReply): { ends(operation: Operation): void; end(): void } {
  let operation: Operation | undefined
  let over = false
  const end = () => {
    over = true
    operation?.end()
  }
  reply.raw.once('finish', end)
  reply.raw.once('close', end)
  return {
    end,
    ends(begun) {
      operation = begun
      if (over) begun.end()
    },
  }
}

const policiesMax = 1_000
const policies = new LRUCache<string, string>({ max: policiesMax })

/** The RateLimit-Policy field of draft-ietf-httpapi-ratelimit-headers. */
function rateLimitPolicy({ day, rate, slots }: AgentLimits): string {
  const key = `${day} ${rate} ${slots}`
  const known = policies.get(key)
  if (known !== undefined) return known
  const made = [
    ...(rate === null ? [] : [`"second";q=${rate};w=1`]),
    ...(day === null ? [] : [`"day";q=${day};w=86400`]),
    ...(slots === null ? [] : [`"concurrent";q=${slots};qu="concurrent-requests"`]),
  ].join(', ')
  policies.set(key, made)
  return made
}

/**
 * The RateLimit field: what is left of the day, or where that does not count, how many more may run here at once; a
 * refusal names the limit that was met first.
 */
function rateLimitHeader(
  { limits, dayRest, dayLeftMs }: LimitStatus,
  running: number,
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
