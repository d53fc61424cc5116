/**
 * What the gateways of a platform share about their agents' limits. A gateway leases permits to begin operations, a part
 * of the day's quota and concurrency slots, and decides on those alone; each ask reports what it did since the last.
 *
 * An operation counts for one second from its beginning. A permit that is leased and not used counts until it is given
 * back or runs out, and one that ran out unreported counts as used at that moment: so no second of any gateway holds
 * more than the limit, whoever dies.
 */

import type { Closeable } from '#lib/resource.ts'
import type { AgentLimits } from './tiers.ts'

/** A permit to begin an operation runs out after this time: with the second that it counts, under two seconds. */
export const permitLifeMs = 800
/** Slots of a gateway that does not renew them are free again after this time. */
export const slotLifeMs = 2_000
export const rateWindowMs = 1_000
/** The share of the day's rest that a gateway holds at most: so much is lost with one that is killed. */
export const dayShare = 0.01
export const dayChunkMax = 500

export interface LeaseAsk {
  /** The agent's uid. */
  key: string
  instance: string
  /** Rises with every ask of an instance for a key: one that arrives late counts for nothing. */
  seq: number
  limits: AgentLimits
  /** How many ms ago each operation began that was not reported before. */
  began_ago: number[]
  /** Permits that are kept, unused. */
  rate_held: number
  /** Further ones that would be taken. 0: none, what is left out of `rate_held` is given back. */
  rate_wanted: number
  /** The UTC day of the two that follow, as an answer named it. */
  day: string | null
  /** The day's operations that were leased to this instance and not given back, used or not. */
  day_leased: number
  /** Those of them that began. */
  day_used: number
  /** At least so many further ones; 0: none. */
  day_wanted: number
  /** Slots in use, which cannot be given up. */
  busy: number
  /** All slots that would be held, those in use included. */
  slots_wanted: number
}

export interface LeaseAnswer {
  /** Further permits. */
  rate: number
  /** ms after which one more operation may begin, when there was none. */
  rate_wait_ms: number
  /** Further operations of the day. */
  day_granted: number
  day: string
  /** ms to the end of the UTC day. */
  day_left_ms: number
  /** Operations of the day that began, as far as it was reported; what a dead gateway held counts as begun. */
  day_used: number
  /** All slots now held. */
  slots: number
  /** Other instances hold permits, operations of the day, slots unused, which may come back soon. */
  rate_elsewhere: boolean
  day_elsewhere: boolean
  slots_elsewhere: boolean
}

export interface SharedLimits extends Closeable {
  /** Share of the rate that is leased at once. */
  readonly rateShare: number
  /** A refusal is believed for at least this time before the shared state is asked again. */
  readonly refusalMsMin: number
  /** Throws AppError `relational_engine_unavailable` when only the database could tell and it is away. */
  lease(ask: LeaseAsk): Promise<LeaseAnswer>
  /** Operations of today that began. */
  usedToday(key: string): Promise<number>
  /** Forgets what is long over. */
  sweep(): Promise<void>
}

/** How many operations of the day are leased when so many are left: what is wanted, and with what is held up to a chunk. */
export function dayGrant(wanted: number, rest: number, held: number): number {
  const chunk = Math.min(dayChunkMax, Math.max(1, Math.floor(rest * dayShare)))
  return Math.max(0, Math.min(rest, Math.max(wanted, chunk - held)))
}
