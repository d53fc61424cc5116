/**
 * How busy an ordered target is, from the rate of its events and how often they fail. A load of 1 or more means that its
 * backlog grows without end.
 */

export interface TargetTraffic {
  /** Events a second. */
  ratePerS: number
  /** Share of all attempts, 0..1. */
  failedShare: number
  /** One call, answer included. */
  callMs: number
}

/** The longest wait before a retry, whatever the configured back-off says. */
const backoffMsMax = 60_000

/**
 * The share of each second that the target's queue is calling or waiting to retry. A failed event is retried in its place
 * and all behind it wait, so that from 1 on the backlog grows without end although the target answers. A wait is drawn
 * evenly between 0 and `backoffMs · 2^n`, so half of that counts.
 */
export function targetLoad(target: { backoffMs: number; retry: number }, traffic: TargetTraffic): number {
  const { ratePerS, failedShare, callMs } = traffic
  let busyMs = callMs
  let share = failedShare
  for (let n = 0; n < target.retry && share > 1e-6; n++, share *= failedShare) {
    busyMs += share * (Math.min(target.backoffMs * 2 ** n, backoffMsMax) / 2 + callMs)
  }
  return (ratePerS * busyMs) / 1_000
}

/** The largest whole back-off in ms that keeps the load at `loadMax`, or null when even 0 is too long. */
export function backoffWithin(loadMax: number, retry: number, traffic: TargetTraffic): number | null {
  const loadOf = (backoffMs: number) => targetLoad({ backoffMs, retry }, traffic)
  if (loadOf(0) > loadMax) return null
  let least = 0
  let most = backoffMsMax
  while (most - least > 1) {
    const middle = Math.floor((least + most) / 2)
    if (loadOf(middle) <= loadMax) least = middle
    else most = middle
  }
  return least
}
