/** How busy an ordered lane is: the rate of its events and how they fail in, a load out that must stay below 1. */

export interface LaneTraffic {
  /** Events a second. */
  ratePerS: number
  /** Of all attempts, 0..1. */
  failedShare: number
  /** One call, answer included. */
  callMs: number
}

/** The longest wait before a retry, whatever the configured back-off says. */
export const backoffMsMax = 60_000

/**
 * The share of each second that a lane works or waits. A failed event is tried again in its place, and all behind it wait
 * meanwhile: from 1 on the backlog grows without end though the target answers. A wait is drawn evenly between nothing
 * and `backoffMs · 2^n`, so half of that counts.
 */
export function laneLoad(target: { backoffMs: number; retry: number }, traffic: LaneTraffic): number {
  const { ratePerS, failedShare, callMs } = traffic
  let busyMs = callMs
  let share = failedShare
  for (let n = 0; n < target.retry && share > 1e-6; n++, share *= failedShare) {
    busyMs += share * (Math.min(target.backoffMs * 2 ** n, backoffMsMax) / 2 + callMs)
  }
  return (ratePerS * busyMs) / 1_000
}

/** The largest whole back-off in ms that keeps the load at `loadMax`, or null when not even none does. */
export function backoffWithin(loadMax: number, retry: number, traffic: LaneTraffic): number | null {
  const loadOf = (backoffMs: number) => laneLoad({ backoffMs, retry }, traffic)
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
