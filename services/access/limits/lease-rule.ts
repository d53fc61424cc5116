/**
 * The agents' limits and their rule, as arithmetic on one agent's row: what a gateway that reports what it did may lease
 * further. Where rows are kept is not its business (limit-rows.ts).
 *
 * One lease covers all three limits: operations that may begin, each of which the rate and the day have room for, and
 * slots. A gateway decides on it alone. An operation counts for one second from its beginning. One that is leased and not
 * begun counts until it is given back or runs out, and one that ran out unreported counts as begun at that moment: so no
 * second of any gateway holds more than the limit, whichever process dies.
 */

import { windowWaitMs } from '#lib/sliding-window.ts'

/** What an agent may do. null is unlimited. */
export interface AgentLimits {
  /** Operations a UTC day. */
  day: number | null
  /** Operations that begin within any one second. */
  rate: number | null
  /** Operations at once. */
  slots: number | null
}

/** The limits by the names of their policies. */
export type Limit = 'day' | 'second' | 'concurrent'

/** An operation that may begin runs out after this time: with the second that it counts, under two seconds. */
export const leaseLifeMs = 800
/** A gateway that cannot renew its slots begins nothing more in them after this time. */
export const slotUseMs = 2_000
/** Then they are free for others: what began in them may run for 3 s more while the shared rows cannot be had. */
const slotLifeMs = 5_000
export const rateWindowMs = 1_000
/** A holder that has been silent for this long is dead: what it held of the day counts as used. */
export const holderSilentMsMax = 10_000
/** The share of the rate that is leased at once. */
const rateShare = 1 / 5
/** The share of the day's rest that a gateway holds at most: one that is killed loses this much. */
const dayShare = 0.01
const dayChunkMax = 500
const dayMs = 86_400_000

export interface LeaseAsk {
  /** The agent's uid. */
  key: string
  instance: string
  /** Rises with every ask of an instance for a key: one that arrives late counts for nothing. */
  seq: number
  limits: AgentLimits
  /** How many ms ago each operation began that was not reported before. */
  beganAgoMs: number[]
  /** Operations that may still begin and are kept; the rest of the lease is returned. */
  held: number
  /** At least this many further ones; 0: none. */
  wanted: number
  /** The UTC day of the two that follow, as an answer named it. */
  day: string | null
  /** The day's operations that were leased to this instance and not given back, used or not. */
  dayLeased: number
  /** Those of them that began. */
  dayUsed: number
  /** Slots in use, which cannot be given up. */
  busy: number
  /** All slots that would be held, those in use included. */
  slotsWanted: number
}

export interface LeaseAnswer {
  /** Further operations that may begin. */
  granted: number
  day: string
  /** ms to the end of the UTC day. */
  dayLeftMs: number
  /** The ask with the newly leased operations. */
  dayLeased: number
  /** Operations of the day that began, as far as it was reported; what a dead gateway held counts as begun. */
  dayUsed: number
  /** All slots now held. */
  slots: number
  /** The limits that are used up, so that less was given than was wanted. */
  met: MetLimit[]
}

export interface MetLimit {
  limit: Limit
  /** ms after which one more operation may begin; 0 where nobody knows. */
  waitMs: number
  /** Other instances hold some of it unused, which may come back soon. */
  elsewhere: boolean
}

/** What the instances share of one agent, whichever gateway reported it. */
export interface LimitRow {
  /** When the operations of the last second began, in ms, rising. */
  began: number[]
  holders: Map<string, Holder>
  /** UTC day of `leased` and of the holders' figures. */
  day: string
  /** Operations of the day that were leased and not given back. */
  leased: number
}

/** What one instance holds. The names are those of the stored JSON, which earlier releases read, too. */
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

/** Changes `row` and returns the new lease. Throws where a later ask of the instance was answered: nobody waits for this one. */
export function leaseFrom(row: LimitRow, ask: LeaseAsk, atMs: number): LeaseAnswer {
  if (ask.seq <= (row.holders.get(ask.instance)?.seq ?? 0)) throw new Error('a later ask was answered')
  expire(row, ask.instance, atMs)
  const holder = report(row, ask, atMs)
  const others = [...row.holders.values()].filter((other) => other !== holder)
  const dayLeftMs = dayMs - (atMs % dayMs)
  const met: MetLimit[] = []
  const dayRoom = roomInDay(row, holder, ask)
  if (ask.wanted > 0 && dayRoom <= 0) {
    met.push({ limit: 'day', waitMs: dayLeftMs, elsewhere: others.some((other) => unusedOf(other) > 0) })
  }
  const second = roomInSecond(row, holder, others, ask, atMs)
  if (ask.wanted > 0 && second.room <= 0) {
    met.push({ limit: 'second', waitMs: second.waitMs, elsewhere: others.some(({ rate }) => rate > 0) })
  }
  const aimed = ask.wanted === 0 ? 0 : Math.max(ask.wanted, chunkOf(ask))
  const granted = Math.max(0, Math.min(aimed, dayRoom, second.room))
  if (ask.limits.rate !== null) holder.rate += granted
  leaseSlots(holder, others, ask, atMs)
  if (ask.limits.slots !== null && holder.slots < ask.slotsWanted) {
    met.push({ limit: 'concurrent', waitMs: 0, elsewhere: others.some(({ slots, busy }) => slots > busy) })
  }
  return {
    ...{ granted, day: row.day, dayLeftMs, dayLeased: holder.day_leased, dayUsed: usedOn(row, atMs) },
    ...{ slots: holder.slots, met },
  }
}

/** What ran out unreported counts as begun when it ran out. The one who asks reports for itself. */
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

/** The instance as it says that it is now. Of one that was forgotten, the day's lease is still counted as leased. */
function report(row: LimitRow, ask: LeaseAsk, atMs: number): Holder {
  for (const ago of ask.beganAgoMs) if (ago < rateWindowMs) row.began.push(atMs - ago)
  row.began.sort((a, b) => a - b)
  const [day_leased, day_used] = ask.day === row.day ? [ask.dayLeased, ask.dayUsed] : [0, 0]
  const known = row.holders.get(ask.instance)
  if (known) row.leased = Math.max(0, row.leased + day_leased - known.day_leased)
  const rate = ask.limits.rate === null ? 0 : ask.held
  const holder: Holder = {
    ...{ seq: ask.seq, seen: atMs, rate, rate_until: atMs + leaseLifeMs },
    ...{ slots: known?.slots ?? 0, busy: ask.busy, slots_until: known?.slots_until ?? 0 },
    ...{ day_leased, day_used },
  }
  row.holders.set(ask.instance, holder)
  return holder
}

/** Operations leased ahead of demand. */
function chunkOf({ limits }: LeaseAsk): number {
  return limits.rate === null ? dayChunkMax : Math.max(1, Math.ceil(limits.rate * rateShare))
}

/** Operations that may begin by the day. Less than a chunk of them becomes more, up to a hundredth of the day's rest. */
function roomInDay(row: LimitRow, holder: Holder, ask: LeaseAsk): number {
  if (ask.limits.day === null) return Number.POSITIVE_INFINITY
  const room = unusedOf(holder) - ask.held
  if (ask.wanted === 0 || room >= Math.max(ask.wanted, chunkOf(ask))) return room
  const rest = ask.limits.day - row.leased
  const chunk = Math.min(dayChunkMax, Math.max(1, Math.floor(rest * dayShare)))
  const further = Math.max(0, Math.min(rest, Math.max(ask.wanted - room, chunk - unusedOf(holder))))
  row.leased += further
  holder.day_leased += further
  return room + further
}

/** Operations that may begin by the rate; where there is none, the ms after which there is. */
function roomInSecond(row: LimitRow, holder: Holder, others: Holder[], ask: LeaseAsk, atMs: number) {
  const limit = ask.limits.rate
  if (limit === null) return { room: Number.POSITIVE_INFINITY, waitMs: 0 }
  // What others hold may be used until it runs out, and counts for a second from then.
  const held = others.flatMap((other) => Array<number>(other.rate).fill(other.rate_until))
  const times = [...row.began, ...held].sort((a, b) => a - b)
  const own = limit - holder.rate
  const room = own - times.length
  if (room <= 0) return { room, waitMs: windowWaitMs(times, own, rateWindowMs, atMs) }
  // Whoever shares the room leaves some of it, down to a single operation.
  const active = others.filter((other) => other.seen > atMs - rateWindowMs).length
  return { room: active === 0 ? room : Math.ceil(room / (2 * (active + 1))), waitMs: 0 }
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
