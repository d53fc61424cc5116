/**
 * The shared state of one agent's limits as plain data, and one ask of it: what `platform.lease` does in the database,
 * here for gateways that share nothing, with the time given.
 */

import {
  dayGrant,
  type LeaseAnswer,
  type LeaseAsk,
  permitLifeMs,
  rateWindowMs,
  slotLifeMs,
} from './shared-limits.ts'

export interface SharedAgent {
  /** When the operations of the last second began, in ms. */
  began: number[]
  holders: Map<string, Holder>
  /** UTC day of `leased` and of the holders' figures. */
  day: string
  leased: number
}

interface Holder {
  seq: number
  seenAt: number
  rate: number
  rateUntil: number
  slots: number
  busy: number
  slotsUntil: number
  dayLeased: number
  dayUsed: number
}

const dayMs = 86_400_000
/** A holder that was not heard for so long is dead: what it held of the day counts as used. */
export const holderSilentMsMax = 10_000

export function newSharedAgent(day: string, leased: number): SharedAgent {
  return { began: [], holders: new Map(), day, leased }
}

/** Operations of the day that began, as far as it was reported. */
export function begunOf(agent: SharedAgent): number {
  return [...agent.holders.values()].reduce((sum, one) => sum - one.dayLeased + one.dayUsed, agent.leased)
}

/** ISO date of a time in ms. */
export function utcDay(atMs: number): string {
  return new Date(atMs).toISOString().slice(0, 10)
}

/** Changes `agent` and tells what was leased; of the day at most `dayMost`. */
export function leaseFrom(
  agent: SharedAgent,
  ask: LeaseAsk,
  atMs: number,
  dayMost = Number.POSITIVE_INFINITY,
): LeaseAnswer {
  if (ask.seq <= (agent.holders.get(ask.instance)?.seq ?? 0)) return staleAnswer(agent, ask, atMs)
  expire(agent, ask.instance, atMs)
  const holder = holderOf(agent, ask)
  report(agent, holder, ask, atMs)
  const others = [...agent.holders].filter(([name]) => name !== ask.instance).map(([, other]) => other)
  const rate = leaseRate(agent, holder, others, ask, atMs)
  const day = leaseDay(agent, holder, ask, dayMost)
  leaseSlots(holder, others, ask, atMs)
  const unused = (other: Holder) => other.dayLeased - other.dayUsed
  return {
    ...rate,
    day_granted: day,
    day: agent.day,
    day_left_ms: dayMs - (atMs % dayMs),
    day_used: begunOf(agent),
    slots: holder.slots,
    rate_elsewhere: others.some((other) => other.rate > 0),
    day_elsewhere: others.some((other) => unused(other) > 0),
    slots_elsewhere: others.some((other) => other.slots > other.busy),
  }
}

/** A later ask of the instance was answered already: nobody waits for this one any more. */
function staleAnswer(agent: SharedAgent, ask: LeaseAsk, atMs: number): LeaseAnswer {
  const day = utcDay(atMs)
  return {
    rate: 0,
    rate_wait_ms: 50,
    day_granted: 0,
    day,
    day_left_ms: 0,
    day_used: agent.day === day ? agent.leased : 0,
    slots: agent.holders.get(ask.instance)?.slots ?? 0,
    rate_elsewhere: false,
    day_elsewhere: false,
    slots_elsewhere: false,
  }
}

/** What ran out unreported counts as used when it ran out. The one who asks reports for itself. */
function expire(agent: SharedAgent, asking: string, atMs: number): void {
  const today = utcDay(atMs)
  for (const [name, holder] of agent.holders) {
    if (holder.rate > 0 && holder.rateUntil <= atMs && name !== asking) {
      agent.began.push(...Array<number>(holder.rate).fill(holder.rateUntil))
      holder.rate = 0
    }
    if (holder.slotsUntil <= atMs) holder.slots = 0
    if (agent.day !== today) holder.dayLeased = holder.dayUsed = 0
    if (name !== asking && holder.seenAt < atMs - holderSilentMsMax) agent.holders.delete(name)
  }
  if (agent.day !== today) {
    agent.day = today
    agent.leased = 0
  }
  agent.began = agent.began.filter((at) => at > atMs - rateWindowMs)
}

/** Operations of the day that will be leased once the ask has reported, and those of them that its instance holds unused. */
export function dayAfter(agent: SharedAgent, ask: LeaseAsk, day: string): { leased: number; held: number } {
  if (agent.day !== day || ask.day !== day) return { leased: agent.day === day ? agent.leased : 0, held: 0 }
  const before = agent.holders.get(ask.instance)?.dayLeased ?? ask.day_leased
  return { leased: agent.leased + ask.day_leased - before, held: ask.day_leased - ask.day_used }
}

function holderOf(agent: SharedAgent, ask: LeaseAsk): Holder {
  const known = agent.holders.get(ask.instance)
  if (known) return known
  // Of one that was forgotten, the day's lease is still counted as leased.
  const dayLeased = ask.day === agent.day ? ask.day_leased : 0
  const holder = { seq: 0, seenAt: 0, rate: 0, rateUntil: 0, slots: 0, busy: 0, slotsUntil: 0, dayUsed: 0 }
  const made = { ...holder, dayLeased }
  agent.holders.set(ask.instance, made)
  return made
}

function report(agent: SharedAgent, holder: Holder, ask: LeaseAsk, atMs: number): void {
  for (const ago of ask.began_ago) if (ago < rateWindowMs) agent.began.push(atMs - ago)
  agent.began.sort((a, b) => a - b)
  const [leased, used] = ask.day === agent.day ? [ask.day_leased, ask.day_used] : [0, 0]
  agent.leased = Math.max(0, agent.leased + leased - holder.dayLeased)
  Object.assign(holder, { seq: ask.seq, seenAt: atMs, dayLeased: leased, dayUsed: used, busy: ask.busy })
  Object.assign(holder, { rate: ask.rate_held, rateUntil: atMs + permitLifeMs })
}

function leaseRate(agent: SharedAgent, holder: Holder, others: Holder[], ask: LeaseAsk, atMs: number) {
  const limit = ask.limits.rate
  if (limit === null) return { rate: 0, rate_wait_ms: 0 }
  const held = others.reduce((sum, other) => sum + other.rate, holder.rate)
  const room = limit - agent.began.length - held
  // Whoever shares the room leaves some of it, down to a single permit.
  const active = others.filter((other) => other.seenAt > atMs - rateWindowMs).length
  const most = active === 0 ? room : Math.ceil(room / (2 * (active + 1)))
  const rate = Math.max(0, Math.min(ask.rate_wanted, most, room))
  holder.rate += rate
  return { rate, rate_wait_ms: rate > 0 || room > 0 ? 0 : waitOf(agent, others, 1 - room, atMs) }
}

/** Until so many operations more have left their second; what others hold may be used until it runs out. */
function waitOf(agent: SharedAgent, others: Holder[], count: number, atMs: number): number {
  const times = [
    ...agent.began,
    ...others.flatMap((other) => Array<number>(other.rate).fill(other.rateUntil)),
  ].sort((a, b) => a - b)
  const leaves = times[count - 1] ?? times.at(-1)
  return leaves === undefined ? rateWindowMs : Math.max(0, leaves + rateWindowMs - atMs)
}

function leaseDay(agent: SharedAgent, holder: Holder, ask: LeaseAsk, dayMost: number): number {
  if (ask.limits.day === null || ask.day_wanted === 0) return 0
  const rest = ask.limits.day - agent.leased
  const granted = Math.min(dayMost, dayGrant(ask.day_wanted, rest, holder.dayLeased - holder.dayUsed))
  agent.leased += granted
  holder.dayLeased += granted
  return granted
}

function leaseSlots(holder: Holder, others: Holder[], ask: LeaseAsk, atMs: number): void {
  if (ask.limits.slots === null) return
  const free = ask.limits.slots - others.reduce((sum, other) => sum + other.slots, 0)
  holder.slots = Math.max(ask.busy, Math.min(ask.slots_wanted, free), 0)
  holder.slotsUntil = atMs + slotLifeMs
}
