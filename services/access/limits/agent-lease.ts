/**
 * What this gateway holds of one agent's limits: permits of the rate, a part of the day, slots. Times in ms come from
 * the caller; nothing here waits. What an answer grants runs out counted from the moment its ask was sent, so that it is
 * never used here after it counts as free in the shared row.
 */

import { type LeaseAnswer, type LeaseAsk, permitLifeMs, rateWindowMs, slotUseMs } from './lease-rule.ts'
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
  /** The ask failed, or may have failed: what it reported is reported again. */
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

/** The share of the rate that is leased at once. */
const rateShare = 1 / 5
/** Slots beyond the most that were in use within this time are given back. */
const peakWindowMs = 200
const [dayLimit, rateLimit, slotLimit] = ['day', 'second', 'concurrent'] as const
const nothing: readonly Limit[] = []

export function createAgentLease(key: string, instance: string, given: AgentLimits): AgentLease {
  let limits = given
  let seq = 0
  const rate = createPermits()
  const day = createDayPart()
  const slots = createSlots()
  let lastUsedAt = 0
  let typicalMs = 50
  /** An ask failed: what the shared row says of this instance is not known. */
  let unknown = false
  const running = new Set<Running>()

  const chunk = () => Math.max(1, Math.ceil((limits.rate ?? 0) * rateShare))
  /** What is not kept leaves at once: it must not be used while the ask that gives it back is under way. */
  function giveUp(): void {
    rate.held = 0
    day.giveUp()
    slots.held = Math.min(slots.held, slots.busy)
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
      if (limits.rate !== null) rate.use(nowMs)
      if (limits.day !== null) day.use()
      slots.take(nowMs)
      const operation = { begunAt: nowMs }
      running.add(operation)
      return operation
    },
    end(operation, nowMs) {
      slots.free(nowMs)
      running.delete(operation)
      typicalMs += (nowMs - operation.begunAt - typicalMs) / 8
    },
    isLow(nowMs) {
      const lowRate = limits.rate !== null && rate.held <= chunk() / 2
      return (
        lowRate || (limits.day !== null && day.isLow()) || (limits.slots !== null && slots.until <= nowMs)
      )
    },
    ask({ waiting, giveBack = false }, nowMs) {
      if (rate.until <= nowMs) rate.held = 0
      if (day.until <= nowMs) day.giveUp()
      if (giveBack) giveUp()
      const keptSlots = slots.kept(nowMs)
      if (limits.slots !== null) slots.held = Math.min(slots.held, keptSlots)
      seq += 1
      const ahead = !giveBack && rate.held <= chunk() / 2 ? chunk() : 0
      const dayAhead = !giveBack && day.isLow() ? 1 : 0
      return {
        ...{ key, instance, seq, limits },
        beganAgoMs: rate.report().map((at) => nowMs - at),
        rateHeld: rate.held,
        rateWanted: limits.rate === null ? 0 : Math.max(ahead, waiting - rate.held),
        ...{ day: day.name, dayLeased: day.leased, dayUsed: day.used },
        dayWanted: limits.day === null ? 0 : Math.max(dayAhead, waiting - day.held),
        busy: slots.busy,
        slotsWanted: Math.max(keptSlots, slots.busy + waiting),
      }
    },
    answered(ask, answer, sentAt) {
      unknown = false
      rate.until = sentAt + permitLifeMs
      slots.until = sentAt + slotUseMs
      day.answered(ask, answer, sentAt)
      // What was leased under limits of before is left: the next ask does not claim it.
      if (ask.limits !== limits) return
      rate.held += answer.rate
      day.grant(answer.dayGranted)
      slots.held = answer.slots
    },
    failed(ask, sentAt) {
      unknown = true
      rate.reportAgain(ask, sentAt)
    },
    holdsUnused: () =>
      unknown || rate.held > 0 || day.held > 0 || slots.held > slots.busy || rate.unreported() > 0,
    busy: () => slots.busy,
    lastUsedAt: () => lastUsedAt,
    runsOut(nowMs, withinMs) {
      const slotsToo = slots.held > 0 && slots.until - nowMs < withinMs + slotUseMs - permitLifeMs
      return slotsToo || (rate.held > 0 && rate.until - nowMs < withinMs)
    },
    dayRest: () => (limits.day === null ? null : Math.max(0, limits.day - day.usedByAll())),
    dayLeftMs: (nowMs) => Math.max(0, day.until - nowMs),
    dayUnreported: () => day.unreported(),
    typicalMs: () => typicalMs,
    oldest: () => running.values().next().value?.begunAt,
  }
}

/** Permits to begin, and when operations began that the shared row does not know yet. */
function createPermits() {
  let began: number[] = []
  return {
    held: 0,
    until: 0,
    use(nowMs: number) {
      this.held -= 1
      began.push(nowMs)
    },
    unreported: () => began.length,
    report() {
      const reported = began
      began = []
      return reported
    },
    reportAgain({ beganAgoMs }: LeaseAsk, sentAt: number) {
      const times = beganAgoMs.map((ago) => sentAt - ago).filter((at) => at > sentAt - rateWindowMs)
      began = [...times, ...began]
    },
  }
}

/** The part of the day's quota. */
function createDayPart() {
  /** What the last answer said that all began, and how many of those were this instance's. */
  const known = { used: 0, own: 0 }
  let chunk = 0
  return {
    /** The UTC day of the figures; null before the first answer. */
    name: null as string | null,
    held: 0,
    leased: 0,
    used: 0,
    until: 0,
    use() {
      this.held -= 1
      this.used += 1
    },
    giveUp() {
      this.leased -= this.held
      this.held = 0
    },
    isLow() {
      return this.held <= chunk / 2
    },
    answered(ask: LeaseAsk, answer: LeaseAnswer, sentAt: number) {
      this.until = sentAt + answer.dayLeftMs
      if (answer.day !== this.name) {
        this.name = answer.day
        this.held = this.leased = this.used = 0
      }
      known.used = answer.dayUsed
      known.own = answer.day === ask.day ? ask.dayUsed : 0
    },
    grant(count: number) {
      this.held += count
      this.leased += count
      if (count > 0) chunk = this.held
    },
    usedByAll() {
      return known.used + this.unreported()
    },
    unreported() {
      return this.used - known.own
    },
  }
}

/** Slots, and how many of them were in use at once lately. */
function createSlots() {
  const peak = { now: 0, before: 0, since: 0 }
  return {
    held: 0,
    busy: 0,
    until: 0,
    take(nowMs: number) {
      this.busy += 1
      this.notePeak(nowMs)
    },
    free(nowMs: number) {
      this.notePeak(nowMs)
      this.busy -= 1
    },
    /** How many are worth keeping. */
    kept(nowMs: number) {
      this.notePeak(nowMs)
      return Math.max(this.busy, Math.min(this.held, Math.max(peak.now, peak.before)))
    },
    notePeak(nowMs: number) {
      if (nowMs - peak.since >= peakWindowMs) {
        peak.before = nowMs - peak.since >= 2 * peakWindowMs ? this.busy : peak.now
        peak.now = this.busy
        peak.since = nowMs
      }
      peak.now = Math.max(peak.now, this.busy)
    },
  }
}
