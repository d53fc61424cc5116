/**
 * What a request does whose agent's lease is used up: it asks the shared row, waits a little for what another gateway
 * holds unused, and is refused otherwise.
 */

import { setImmediate as nextTurn } from 'node:timers/promises'
import { sleep } from '#lib/backoff.ts'
import { AppError, type ErrorCode } from '#lib/errors.ts'
import type { Limit } from './agent-lease.ts'
import { type LeaseAnswer, type LeaseAsk, permitLifeMs } from './lease-rule.ts'
import { idleMs, type LeasedAgent } from './leased-agents.ts'

/** What another gateway holds unused is waited for this long. */
const elsewhereMs = 600
const elsewherePollMs = 40
/** A request whose answers from the shared row all come too late is answered that it is away. */
const lateMs = 3_000
/** Requests of an agent that wait for what another gateway holds. */
const waitingMax = 50
/** A refusal is believed for at least this time before the shared row is asked again. */
const refusalMsMin = 50

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
    const lacks = agent.lease.lacking(now())
    if (lacks.length === 0) return begin(agent)
    const believed = lacks.find((lack) => agent.refused[lack] > now())
    if (believed) throw refusalOf(agent, believed, now())
    if (agent.awayUntil > now() || now() > lateAt) throw limitsAway()
    // An answer that was on its way before this request came may not have counted it.
    if (!asked && agent.asking) await agent.asking.catch(() => {})
    else {
      await ask(agent)
      asked = true
      const refusal = await refusalAfterAnswer(agent, giveUpAt, now)
      if (refusal) throw refusal
    }
  }
}

/** After an answer: waits a little when what is lacking may come back from elsewhere, else notes the refusal. */
async function refusalAfterAnswer(
  agent: LeasedAgent,
  giveUpAt: number,
  now: () => number,
): Promise<LimitRefusal | undefined> {
  if (agent.lease.lacking(now()).length === 0) return undefined
  // An answer that was just written to its end frees its slot in this turn.
  await nextTurn()
  const at = now()
  const lacks = agent.lease.lacking(at)
  const first = lacks[0]
  if (first === undefined) return undefined
  const { ask, answer, sentAt } = agent.last!
  // So late that what it brought has run out: that is no refusal.
  if (at - sentAt >= permitLifeMs) return undefined
  // Nor is an answer to an ask that was not about this, or that gave what others have taken since.
  if (!lacks.every((lack) => isUsedUp(lack, ask, answer))) return undefined
  const few = agent.waiting <= waitingMax
  if (few && at < giveUpAt && lacks.every((lack) => mayComeBack(lack, answer))) {
    await sleep(elsewherePollMs)
    return undefined
  }
  for (const lack of lacks) {
    const believed = Math.max(refusalMsMin, believedMs(agent, lack, at))
    agent.refused[lack] = Math.max(agent.refused[lack], at + believed)
  }
  return refusalOf(agent, first, at)
}

function refusalOf(agent: LeasedAgent, limit: Limit, at: number): LimitRefusal {
  if (limit !== 'concurrent') return new LimitRefusal(limit, Math.max(1, agent.refused[limit] - at))
  const oldest = agent.lease.oldest()
  const oldestForMs = oldest === undefined ? 0 : at - oldest
  return new LimitRefusal(limit, concurrentWait(agent.lease.typicalMs(), oldestForMs))
}

/** For how long the shared row need not be asked again. When an operation ends is not known. */
function believedMs(agent: LeasedAgent, lack: Limit, at: number): number {
  const { answer } = agent.last!
  if (lack === 'concurrent') return 0
  const waitMs = lack === 'day' ? agent.lease.dayLeftMs(at) : answer.rateWaitMs
  return mayComeBack(lack, answer) ? Math.min(idleMs, waitMs) : waitMs
}

function isUsedUp(lack: Limit, ask: LeaseAsk, answer: LeaseAnswer): boolean {
  if (lack === 'second') return answer.rateWaitMs > 0
  if (lack === 'day') return ask.dayWanted > 0 && answer.dayGranted === 0
  return answer.slots < ask.slotsWanted
}

function mayComeBack(lack: Limit, answer: LeaseAnswer): boolean {
  if (lack === 'day') return answer.dayElsewhere
  return lack === 'second' ? answer.rateElsewhere : answer.slotsElsewhere
}

export function limitsAway(): AppError {
  return new AppError('relational_engine_unavailable', 'The limits cannot be counted now.', { retryAfter: 1 })
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

const concurrentWaitMs = { least: 50, most: 5_000 }

/**
 * Nobody knows when an operation ends. Those of this agent usually take `typicalMs`; one that has run longer than that
 * may run as long again.
 */
function concurrentWait(typicalMs: number, oldestForMs: number): number {
  const expected = oldestForMs < typicalMs ? typicalMs - oldestForMs : oldestForMs
  return Math.min(concurrentWaitMs.most, Math.max(concurrentWaitMs.least, expected))
}
