/** Warns of an ordered target whose back-off lets its backlog grow without end at the rate that was measured. */

import type { Logger } from 'pino'
import type { WebhookTarget } from '../targets/targets-file.ts'

/** Assumed until enough calls were measured: every tenth attempt fails, and a call takes this long. */
const assumedFailedShare = 0.1
const assumedCallMs = 20
/** Fewer attempts than these give no share. */
const attemptsMin = 50
const recommendedLoad = 0.5
/** A rate is measured over a minute at least, so that a burst does not count, and a quarter of an hour at most. */
const windowMsMax = 15 * 60_000
const windowSMin = 60
const recordsMin = 20

interface Measured {
  /** Records appended: how many, the time of the first and of the last. */
  count: number
  firstMs: number
  lastMs: number
  attempts: number
  failed: number
  callMs: number
  warned: boolean
}

export class LoadWatch {
  readonly #log: Logger
  readonly #measured = new Map<string, Measured>()

  constructor(log: Logger) {
    this.#log = log
  }

  /** A record was appended for this target at this time. */
  came(target: string, atMs: number): void {
    const measured = this.#of(target)
    if (measured.count === 0 || atMs - measured.firstMs > windowMsMax) {
      measured.firstMs = atMs
      measured.lastMs = atMs
      measured.count = 0
    }
    measured.count++
    // A record's time may be earlier than that of the one before it: another broker leads the partition now.
    measured.firstMs = Math.min(measured.firstMs, atMs)
    measured.lastMs = Math.max(measured.lastMs, atMs)
  }

  tried(target: string, failed: boolean, tookMs: number): void {
    const measured = this.#of(target)
    // Halving keeps the newest hundreds in the majority.
    if (measured.attempts >= 1_000) {
      measured.attempts /= 2
      measured.failed /= 2
    }
    measured.attempts++
    if (failed) measured.failed++
    else measured.callMs += (tookMs - measured.callMs) / Math.min(measured.attempts, 100)
  }

  /** The targets file changed: the problem behind a warning may be corrected. */
  renewed(): void {
    for (const measured of this.#measured.values()) measured.warned = false
  }

  /** Warns of each target once. */
  look(targets: Iterable<WebhookTarget>): void {
    for (const target of targets) {
      const measured = this.#measured.get(target.name)
      if (!measured) continue
      const traffic = trafficOf(measured)
      const { name, ordering, backoffMs, retry } = target
      // With ordering by agent it is not known how the agents share the rate.
      if (traffic && ordering === 'target' && !measured.warned && targetLoad(target, traffic) >= 1) {
        measured.warned = true
        const load = Number(targetLoad(target, traffic).toFixed(2))
        const enough = backoffWithin(recommendedLoad, retry, traffic)
        this.#log.warn(
          {
            target: name,
            load,
            ...rounded(traffic),
            backoff_ms: backoffMs,
            backoff_ms_enough: enough,
            hint: 'with this backoff_ms the target falls behind without end while it fails now and then',
          },
          'webhooks.lane-unstable',
        )
      }
    }
  }

  #of(target: string): Measured {
    let measured = this.#measured.get(target)
    if (!measured) {
      measured = {
        count: 0,
        firstMs: 0,
        lastMs: 0,
        attempts: 0,
        failed: 0,
        callMs: assumedCallMs,
        warned: false,
      }
      this.#measured.set(target, measured)
    }
    return measured
  }
}

function trafficOf({ count, firstMs, lastMs, attempts, failed, callMs }: Measured): TargetTraffic | null {
  if (count < recordsMin) return null
  const ratePerS = (count - 1) / Math.max(windowSMin, (lastMs - firstMs) / 1_000)
  const failedShare = attempts >= attemptsMin ? failed / attempts : assumedFailedShare
  return { ratePerS, failedShare, callMs }
}

function rounded({ ratePerS, failedShare, callMs }: TargetTraffic) {
  return {
    rate_per_s: Number(ratePerS.toFixed(2)),
    failed_share: Number(failedShare.toFixed(3)),
    call_ms: Math.round(callMs),
  }
}

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
 * How busy an ordered target is: the share of each second that the target's queue is calling or waiting to retry. A failed event is retried in its place
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
