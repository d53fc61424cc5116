/**
 * The lease of one agent that this gateway holds: operations that may begin, which cover the rate and the day, and slots.
 * Times in ms come from the caller; nothing here waits. What an answer grants runs out counted from the moment its ask was
 * sent, so that it is never used here after it counts as free in the shared row.
 */

import {
  type AgentLimits,
  type LeaseAnswer,
  type LeaseAsk,
  type Limit,
  leaseLifeMs,
  rateWindowMs,
  slotUseMs,
} from './lease-rule.ts'

export type AgentLease = ReturnType<typeof createAgentLease>

export function createAgentLease(key: string, instance: string, given: AgentLimits) {
  let limits = given
  let seq = 0
  /** Operations that may begin; `chunk` of them came last. */
  const operations = { held: 0, chunk: 0, until: 0 }
  /** `most` were in use at once since the last ask. */
  const slots = { held: 0, most: 0, until: 0 }
  /** The shared row knows of `reported` that began here, and of `others`. */
  const day = { name: null as string | null, leased: 0, used: 0, until: 0, reported: 0, others: 0 }
  /** When operations began that the shared row does not know yet. */
  let began: number[] = []
  const running = new Set<{ begunAt: number }>()
  let lastUsedAt = 0
  /** An ask failed: what the shared row says of this instance is not known. */
  let unknown = false

  const counts = () => limits.rate !== null || limits.day !== null
  /** Operations of the day that began here and are not reported yet. */
  const dayUnreported = () => day.used - day.reported
  /** Returned operations leave at once: they must not be used while the ask that returns them is in flight. */
  function giveUp(): void {
    operations.held = 0
    day.leased = day.used
    slots.held = Math.min(slots.held, running.size)
  }
  /** Whether one more operation would lack this now. */
  function lacks(limit: Limit, nowMs: number): boolean {
    if (limit !== 'concurrent') return counts() && (operations.held < 1 || operations.until <= nowMs)
    return limits.slots !== null && (running.size >= slots.held || slots.until <= nowMs)
  }
  const isLow = () => counts() && operations.held <= operations.chunk / 2

  return {
    /** Limits as they are now. True on a change: nothing that was held under the old ones is used any more. */
    setLimits(next: AgentLimits): boolean {
      if (limits.day === next.day && limits.rate === next.rate && limits.slots === next.slots) return false
      limits = next
      giveUp()
      return true
    },
    lacks,
    mayBegin: (nowMs: number) => !lacks('second', nowMs) && !lacks('concurrent', nowMs),
    /** Counts an operation that begins; only where it may. The result ends it and frees its slot; only its first call counts. */
    begin(nowMs: number): () => void {
      lastUsedAt = nowMs
      if (counts()) operations.held -= 1
      if (limits.rate !== null) began.push(nowMs)
      if (limits.day !== null) day.used += 1
      const operation = { begunAt: nowMs }
      running.add(operation)
      slots.most = Math.max(slots.most, running.size)
      return () => void running.delete(operation)
    },
    /** True when more should be leased before it is lacking. */
    isLow: (nowMs: number) => isLow() || (limits.slots !== null && slots.until <= nowMs),
    /** `waiting` requests want to begin. `giveBack`: keep nothing but the slots in use. */
    ask(waiting: number, giveBack: boolean, nowMs: number): LeaseAsk {
      if (operations.until <= nowMs) operations.held = 0
      if (giveBack) giveUp()
      slots.held = Math.max(running.size, Math.min(slots.held, slots.most))
      slots.most = running.size
      seq += 1
      return {
        ...{ key, instance, seq, limits },
        beganAgoMs: began.splice(0).map((at) => nowMs - at),
        held: operations.held,
        wanted: counts() ? Math.max(waiting - operations.held, !giveBack && isLow() ? 1 : 0) : 0,
        ...{ day: day.name, dayLeased: day.leased, dayUsed: day.used },
        busy: running.size,
        slotsWanted: Math.max(slots.held, running.size + waiting),
      }
    },
    /** The answer to an ask that was made at `sentAt`. */
    answered(ask: LeaseAsk, answer: LeaseAnswer, sentAt: number): void {
      unknown = false
      if (answer.day !== day.name) Object.assign(day, { name: answer.day, leased: 0, used: 0 })
      day.until = sentAt + answer.dayLeftMs
      day.reported = answer.day === ask.day ? ask.dayUsed : 0
      day.others = answer.dayUsed - day.reported
      // Operations leased under the old limits expire: the next ask does not claim them.
      if (ask.limits !== limits) return
      const lifeMs = limits.day === null ? leaseLifeMs : Math.min(leaseLifeMs, answer.dayLeftMs)
      operations.until = sentAt + lifeMs
      operations.held += answer.granted
      if (answer.granted > 0) operations.chunk = answer.granted
      day.leased = answer.dayLeased
      slots.held = answer.slots
      slots.until = sentAt + slotUseMs
    },
    /** The ask failed, or may have failed: what it reported is reported again. */
    failed({ beganAgoMs }: LeaseAsk, sentAt: number): void {
      unknown = true
      began = [...beganAgoMs.map((ago) => sentAt - ago).filter((at) => at > sentAt - rateWindowMs), ...began]
    },
    /** Something unused is held, or there is something to report. */
    holdsUnused: () =>
      unknown ||
      operations.held > 0 ||
      day.leased > day.used ||
      slots.held > running.size ||
      began.length > 0,
    busy: () => running.size,
    lastUsedAt: () => lastUsedAt,
    /** The lease expires within `withinMs` unless it is renewed. */
    runsOut(nowMs: number, withinMs: number): boolean {
      const slotsToo = slots.held > 0 && slots.until - nowMs < withinMs + slotUseMs - leaseLifeMs
      return slotsToo || (operations.held > 0 && operations.until - nowMs < withinMs)
    },
    /** Operations of the day that are left for all, as far as it is known here; null: no limit. */
    dayRest: () => (limits.day === null ? null : Math.max(0, limits.day - day.others - day.used)),
    dayLeftMs: (nowMs: number) => Math.max(0, day.until - nowMs),
    dayUnreported,
    /** Beginning of the operation that has run longest, if any runs. */
    oldest: () => running.values().next().value?.begunAt,
  }
}
