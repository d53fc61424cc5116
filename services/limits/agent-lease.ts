/**
 * What this gateway holds of one agent's limits: permits of the rate, a part of the day, slots. Times in ms come from
 * whoever calls; nothing here waits. The answer to an ask is only as good as the moment it was sent: all that is held
 * runs out counted from there, so that this clock never outlives the shared one.
 */

import { type LeaseAnswer, type LeaseAsk, permitLifeMs, rateWindowMs, slotLifeMs } from './shared-limits.ts'
import { type AgentLimits, sameLimits } from './tiers.ts'

/** The limits by the names of their policies. */
export type Limit = 'day' | 'second' | 'concurrent'

export interface Wanted {
  /** Requests that wait for permits. */
  waiting: number
  /** Keep nothing but the slots in use. */
  giveBack?: boolean
}

export interface Running {
  begunAt: number
}

export interface AgentLease {
  /** Limits as they are now. True on a change: nothing that was held under the old ones is used any more. */
  setLimits(limits: AgentLimits): boolean
  limits(): AgentLimits
  /** What one more operation would lack now. */
  lacking(nowMs: number): readonly Limit[]
  /** Counts an operation that begins; only where nothing is lacking. */
  begin(nowMs: number): Running
  /** Frees its slot. Once for each. */
  end(operation: Running, nowMs: number): void
  /** True when more should be leased before it is lacking. */
  isLow(nowMs: number): boolean
  ask(wanted: Wanted, nowMs: number): LeaseAsk
  /** The answer to an ask that was made at `sentAt`. */
  answered(ask: LeaseAsk, answer: LeaseAnswer, sentAt: number): void
  /** The ask failed, or nobody knows: what it reported is reported again. */
  failed(ask: LeaseAsk, sentAt: number): void
  /** Something unused is held, or there is something to report. */
  holdsUnused(): boolean
  busy(): number
  lastUsedAt(): number
  /** Permits or slots run out within `withinMs` unless they are renewed. */
  runsOut(nowMs: number, withinMs: number): boolean
  /** Operations of the day that are left for all, as far as it is known here; null: no limit. */
  dayRest(): number | null
  dayLeftMs(nowMs: number): number
  /** Of this instance and not reported yet. */
  dayUnreported(): number
  typicalMs(): number
  /** Beginning of the operation that has run longest, if any runs. */
  oldest(): number | undefined
}

/** What the peak of slots in use is taken over: slots beyond it are given back. */
const peakWindowMs = 200
const [dayLimit, rateLimit, slotLimit] = ['day', 'second', 'concurrent'] as const
const nothing: readonly Limit[] = []

export function createAgentLease(
  key: string,
  instance: string,
  given: AgentLimits,
  rateShare: number,
): AgentLease {
  let limits = given
  let seq = 0
  let began: number[] = []
  const rate = { held: 0, until: 0 }
  const day = { name: null as string | null, held: 0, leased: 0, used: 0, until: 0, chunk: 0 }
  const told = { used: 0, ownUsed: 0 }
  const slots = { held: 0, busy: 0, until: 0 }
  const peak = { now: 0, before: 0, since: 0 }
  let lastUsedAt = 0
  let typicalMs = 50
  /** An ask failed: what the shared state holds of this instance is not known. */
  let unknown = false
  const running = new Set<Running>()

  const chunk = () => Math.max(1, Math.ceil((limits.rate ?? 0) * rateShare))
  function notePeak(nowMs: number): void {
    if (nowMs - peak.since >= peakWindowMs) {
      peak.before = nowMs - peak.since >= 2 * peakWindowMs ? slots.busy : peak.now
      peak.now = slots.busy
      peak.since = nowMs
    }
    peak.now = Math.max(peak.now, slots.busy)
  }
  /** What is not kept leaves at once: it must not be used while the ask that gives it back is under way. */
  function giveUp(): void {
    rate.held = 0
    day.leased -= day.held
    day.held = 0
    slots.held = Math.min(slots.held, slots.busy)
  }
  function dropExpired(nowMs: number): void {
    if (rate.until <= nowMs) rate.held = 0
    if (day.until <= nowMs) {
      day.leased -= day.held
      day.held = 0
    }
  }

  return {
    setLimits(next) {
      if (sameLimits(limits, next)) return false
      limits = next
      giveUp()
      return true
    },
    limits: () => limits,
    lacking(nowMs) {
      const noDay = limits.day !== null && (day.held < 1 || day.until <= nowMs)
      const noRate = limits.rate !== null && (rate.held < 1 || rate.until <= nowMs)
      const noSlot = limits.slots !== null && (slots.busy >= slots.held || slots.until <= nowMs)
      if (!noDay && !noRate && !noSlot) return nothing
      return [...(noDay ? [dayLimit] : []), ...(noRate ? [rateLimit] : []), ...(noSlot ? [slotLimit] : [])]
    },
    begin(nowMs) {
      lastUsedAt = nowMs
      if (limits.rate !== null) {
        rate.held -= 1
        began.push(nowMs)
      }
      if (limits.day !== null) {
        day.held -= 1
        day.used += 1
      }
      slots.busy += 1
      notePeak(nowMs)
      const operation = { begunAt: nowMs }
      running.add(operation)
      return operation
    },
    end(operation, nowMs) {
      notePeak(nowMs)
      slots.busy -= 1
      running.delete(operation)
      typicalMs += (nowMs - operation.begunAt - typicalMs) / 8
    },
    isLow(nowMs) {
      const lowRate = limits.rate !== null && rate.held <= chunk() / 2
      const lowDay = limits.day !== null && day.held <= day.chunk / 2
      return lowRate || lowDay || (limits.slots !== null && slots.until <= nowMs)
    },
    ask({ waiting, giveBack = false }, nowMs) {
      dropExpired(nowMs)
      notePeak(nowMs)
      if (giveBack) giveUp()
      const keptSlots = Math.max(slots.busy, Math.min(slots.held, Math.max(peak.now, peak.before)))
      if (limits.slots !== null) slots.held = Math.min(slots.held, keptSlots)
      const reported = began
      began = []
      seq += 1
      const low = !giveBack && rate.held <= chunk() / 2
      const lowDay = !giveBack && day.held <= day.chunk / 2
      return {
        key,
        instance,
        seq,
        limits,
        began_ago: reported.map((at) => nowMs - at),
        rate_held: rate.held,
        rate_wanted: limits.rate === null ? 0 : Math.max(low ? chunk() : 0, waiting - rate.held),
        day: day.name,
        day_leased: day.leased,
        day_used: day.used,
        day_wanted: limits.day === null ? 0 : Math.max(lowDay ? 1 : 0, waiting - day.held),
        busy: slots.busy,
        slots_wanted: Math.max(keptSlots, slots.busy + waiting),
      }
    },
    answered(ask, answer, sentAt) {
      unknown = false
      rate.until = sentAt + permitLifeMs
      day.until = sentAt + answer.day_left_ms
      slots.until = sentAt + slotLifeMs
      if (answer.day !== day.name) Object.assign(day, { name: answer.day, held: 0, leased: 0, used: 0 })
      Object.assign(told, { used: answer.day_used, ownUsed: answer.day === ask.day ? ask.day_used : 0 })
      // What was leased under limits of before is left: the next ask does not claim it.
      if (ask.limits !== limits) return
      rate.held += answer.rate
      day.held += answer.day_granted
      day.leased += answer.day_granted
      if (answer.day_granted > 0) day.chunk = day.held
      slots.held = answer.slots
    },
    failed(ask, sentAt) {
      unknown = true
      const times = ask.began_ago.map((ago) => sentAt - ago).filter((at) => at > sentAt - rateWindowMs)
      began = [...times, ...began]
    },
    holdsUnused: () =>
      unknown || rate.held > 0 || day.held > 0 || slots.held > slots.busy || began.length > 0,
    busy: () => slots.busy,
    lastUsedAt: () => lastUsedAt,
    runsOut(nowMs, withinMs) {
      const slotsToo = slots.held > 0 && slots.until - nowMs < withinMs + slotLifeMs - permitLifeMs
      return slotsToo || (rate.held > 0 && rate.until - nowMs < withinMs)
    },
    dayRest: () =>
      limits.day === null ? null : Math.max(0, limits.day - told.used - day.used + told.ownUsed),
    dayLeftMs: (nowMs) => Math.max(0, day.until - nowMs),
    dayUnreported: () => day.used - told.ownUsed,
    typicalMs: () => typicalMs,
    oldest: () => running.values().next().value?.begunAt,
  }
}
