/**
 * The rule of the agents' limits, as arithmetic on one agent's row: what a gateway that reports what it did may lease
 * further. Where rows are kept is not its business (limit-rows.ts).
 *
 * A gateway leases permits to begin operations, a part of the day's quota and concurrency slots, and decides on those
 * alone. An operation counts for one second from its beginning. A permit that is leased and not used counts until it is
 * given back or runs out, and one that ran out unreported counts as used at that moment: so no second of any gateway
 * holds more than the limit, whichever process dies.
 */

import { windowWaitMs } from '#lib/sliding-window.ts'
import type { AgentLimits } from './tiers.ts'

/** A permit to begin an operation runs out after this time: with the second that it counts, under two seconds. */
export const permitLifeMs = 800
/** A gateway that cannot renew its slots begins nothing more in them after this time. */
export const slotUseMs = 2_000
/** Then they are free for others: what began in them may run for 3 s more while the shared rows cannot be had. */
const slotLifeMs = 5_000
export const rateWindowMs = 1_000
/** A holder that has been silent for this long is dead: what it held of the day counts as used. */
export const holderSilentMsMax = 10_000
/** The share of the day's rest that a gateway holds at most: one that is killed loses this much. */
const dayShare = 0.01
const dayChunkMax = 500
const dayMs = 86_400_000
const staleWaitMs = 50

export interface LeaseAsk {
  /** The agent's uid. */
  key: string
  instance: string
  /** Rises with every ask of an instance for a key: one that arrives late counts for nothing. */
  seq: number
  limits: AgentLimits
  /** How many ms ago each operation began that was not reported before. */
  beganAgoMs: number[]
  /** Permits that are kept, unused. */
  rateHeld: number
  /** Further ones that would be taken. 0: none, what is left out of `rateHeld` is given back. */
  rateWanted: number
  /** The UTC day of the two that follow, as an answer named it. */
  day: string | null
  /** The day's operations that were leased to this instance and not given back, used or not. */
  dayLeased: number
  /** Those of them that began. */
  dayUsed: number
  /** At least this many further ones; 0: none. */
  dayWanted: number
  /** Slots in use, which cannot be given up. */
  busy: number
  /** All slots that would be held, those in use included. */
  slotsWanted: number
}

export interface LeaseAnswer {
  /** Further permits. */
  rate: number
  /** ms after which one more operation may begin, when there was none. */
  rateWaitMs: number
  /** Further operations of the day. */
  dayGranted: number
  day: string
  /** ms to the end of the UTC day. */
  dayLeftMs: number
  /** Operations of the day that began, as far as it was reported; what a dead gateway held counts as begun. */
  dayUsed: number
  /** All slots now held. */
  slots: number
  /** Other instances hold permits, operations of the day, slots unused, which may come back soon. */
  rateElsewhere: boolean
  dayElsewhere: boolean
  slotsElsewhere: boolean
}

/** What is known of one agent, whichever gateway reported it. */
export interface LimitRow {
  /** When the operations of the last second began, in ms, rising. */
  began: number[]
  holders: Map<string, Holder>
  /** UTC day of `leased` and of the holders' figures. */
  day: string
  /** Operations of the day that were leased and not given back. */
  leased: number
}

/** What one instance holds. The names are those of the stored JSON. */
export interface Holder {
  seq: number
  seen: number
  rate: number
  rate_until: number
  slots: number
  busy: number
  slots_until: number
  day_leased: number
  day_used: number
}

export function newLimitRow(day: string, leased = 0): LimitRow {
  return { began: [], holders: new Map(), day, leased }
}

/** ISO date of a time in ms. */
export function utcDay(atMs: number): string {
  return new Date(atMs).toISOString().slice(0, 10)
}

/** Operations of the UTC day of `atMs` that began, as far as it was reported. */
export function usedOn(row: LimitRow, atMs: number): number {
  if (row.day !== utcDay(atMs)) return 0
  const living = [...row.holders.values()].filter(({ seen }) => seen >= atMs - holderSilentMsMax)
  return living.reduce((sum, holder) => sum - unusedOf(holder), row.leased)
}

/** Changes `row` and returns what was leased. */
export function leaseFrom(row: LimitRow, ask: LeaseAsk, atMs: number): LeaseAnswer {
  if (ask.seq <= (row.holders.get(ask.instance)?.seq ?? 0)) return staleAnswer(row, ask, atMs)
  expire(row, ask.instance, atMs)
  const holder = holderOf(row, ask)
  report(row, holder, ask, atMs)
  const others = [...row.holders].filter(([name]) => name !== ask.instance).map(([, other]) => other)
  const rate = leaseRate(row, holder, others, ask, atMs)
  const dayGranted = leaseDay(row, holder, ask)
  leaseSlots(holder, others, ask, atMs)
  return {
    ...rate,
    dayGranted,
    day: row.day,
    dayLeftMs: dayMs - (atMs % dayMs),
    dayUsed: usedOn(row, atMs),
    slots: holder.slots,
    rateElsewhere: others.some((other) => other.rate > 0),
    dayElsewhere: others.some((other) => unusedOf(other) > 0),
    slotsElsewhere: others.some((other) => other.slots > other.busy),
  }
}

/** A later ask of the instance was answered already: no request waits for this one any more. */
function staleAnswer(row: LimitRow, ask: LeaseAsk, atMs: number): LeaseAnswer {
  const day = utcDay(atMs)
  return {
    rate: 0,
    rateWaitMs: staleWaitMs,
    dayGranted: 0,
    day,
    dayLeftMs: 0,
    dayUsed: row.day === day ? row.leased : 0,
    slots: row.holders.get(ask.instance)?.slots ?? 0,
    rateElsewhere: false,
    dayElsewhere: false,
    slotsElsewhere: false,
  }
}

/** What ran out unreported counts as used when it ran out. The one who asks reports for itself. */
function expire(row: LimitRow, asking: string, atMs: number): void {
  const today = utcDay(atMs)
  for (const [name, holder] of row.holders) {
    if (holder.rate > 0 && holder.rate_until <= atMs && name !== asking) {
      row.began.push(...Array<number>(holder.rate).fill(holder.rate_until))
      holder.rate = 0
    }
    if (holder.slots_until <= atMs) holder.slots = 0
    if (row.day !== today) holder.day_leased = holder.day_used = 0
    if (name !== asking && holder.seen < atMs - holderSilentMsMax) row.holders.delete(name)
  }
  if (row.day !== today) {
    row.day = today
    row.leased = 0
  }
  row.began = row.began.filter((at) => at > atMs - rateWindowMs)
}

function holderOf(row: LimitRow, ask: LeaseAsk): Holder {
  const known = row.holders.get(ask.instance)
  if (known) return known
  // Of one that was forgotten, the day's lease is still counted as leased.
  const day_leased = ask.day === row.day ? ask.dayLeased : 0
  const nothing = { seq: 0, seen: 0, rate: 0, rate_until: 0, slots: 0, busy: 0, slots_until: 0, day_used: 0 }
  const made = { ...nothing, day_leased }
  row.holders.set(ask.instance, made)
  return made
}

function report(row: LimitRow, holder: Holder, ask: LeaseAsk, atMs: number): void {
  for (const ago of ask.beganAgoMs) if (ago < rateWindowMs) row.began.push(atMs - ago)
  row.began.sort((a, b) => a - b)
  const [day_leased, day_used] = ask.day === row.day ? [ask.dayLeased, ask.dayUsed] : [0, 0]
  row.leased = Math.max(0, row.leased + day_leased - holder.day_leased)
  Object.assign(holder, { seq: ask.seq, seen: atMs, day_leased, day_used, busy: ask.busy })
  Object.assign(holder, { rate: ask.rateHeld, rate_until: atMs + permitLifeMs })
}

function leaseRate(row: LimitRow, holder: Holder, others: Holder[], ask: LeaseAsk, atMs: number) {
  const limit = ask.limits.rate
  if (limit === null) return { rate: 0, rateWaitMs: 0 }
  // What others hold may be used until it runs out, and counts for a second from then.
  const held = others.flatMap((other) => Array<number>(other.rate).fill(other.rate_until))
  const times = [...row.began, ...held].sort((a, b) => a - b)
  const own = limit - holder.rate
  const room = own - times.length
  // Whoever shares the room leaves some of it, down to a single permit.
  const active = others.filter((other) => other.seen > atMs - rateWindowMs).length
  const most = active === 0 ? room : Math.ceil(room / (2 * (active + 1)))
  const rate = Math.max(0, Math.min(ask.rateWanted, most, room))
  holder.rate += rate
  return { rate, rateWaitMs: room > 0 ? 0 : windowWaitMs(times, own, rateWindowMs, atMs) }
}

/** What is wanted, and ahead of it a chunk: a hundredth of the day's rest. */
function leaseDay(row: LimitRow, holder: Holder, ask: LeaseAsk): number {
  if (ask.limits.day === null || ask.dayWanted === 0) return 0
  const rest = ask.limits.day - row.leased
  const chunk = Math.min(dayChunkMax, Math.max(1, Math.floor(rest * dayShare)))
  const granted = Math.max(0, Math.min(rest, Math.max(ask.dayWanted, chunk - unusedOf(holder))))
  row.leased += granted
  holder.day_leased += granted
  return granted
}

function leaseSlots(holder: Holder, others: Holder[], ask: LeaseAsk, atMs: number): void {
  if (ask.limits.slots === null) return
  const free = ask.limits.slots - others.reduce((sum, other) => sum + other.slots, 0)
  holder.slots = Math.max(ask.busy, Math.min(ask.slotsWanted, free), 0)
  holder.slots_until = atMs + slotLifeMs
}

function unusedOf(holder: Holder): number {
  return holder.day_leased - holder.day_used
}
