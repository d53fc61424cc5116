/**
 * What a request does whose agent's lease is used up: it asks the shared row, waits a little for what another gateway
 * holds unused, and is refused otherwise.
 */

import { setImmediate as nextTurn } from 'node:timers/promises'
import { sleep } from '#lib/backoff.ts'
import { AppError, type ErrorCode } from '#lib/errors.ts'
import { type Limit, leaseLifeMs } from './lease-rule.ts'
import { idleMs, isRefused, type LeasedAgent } from './leased-agents.ts'
import { limitsAway } from './limit-rows.ts'

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

interface WaitingParts<T> {
  now(): number
  ask(agent: LeasedAgent): Promise<void>
  /** Called as soon as nothing is lacking: before anybody else can take it. */
  begin(agent: LeasedAgent): T
}

/** Resolves with what began. Rejects with LimitRefusal, or AppError `relational_engine_unavailable`. */
export async function beginAfterWaiting<T>(agent: LeasedAgent, parts: WaitingParts<T>): Promise<T> {
  const { now, ask, begin } = parts
  const giveUpAt = now() + elsewhereMs
  const lateAt = now() + lateMs
  for (let asked = false; ; ) {
    const at = now()
    if (agent.lease.mayBegin(at)) return begin(agent)
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
