/** Warns of targets whose back-off makes their lane grow without end at the rate that was seen, before it happens. */

import type { Logger } from 'pino'
import type { WebhookTarget } from '../targets/target.ts'
import { backoffWithin, type LaneTraffic, laneLoad } from '../targets/target-load.ts'

/** Until a courier has seen better: every tenth attempt fails, a call takes this long. */
const assumedFailedShare = 0.1
const assumedCallMs = 20
/** Fewer attempts than these say nothing of a share. */
const attemptsMin = 50
const recommendedLoad = 0.5
/** A rate is that of a quarter of an hour at most, and of a minute at least: a burst says nothing. */
const windowMsMax = 15 * 60_000
const windowSMin = 60
const recordsMin = 20

interface Seen {
  /** Records read back: how many, the time of the first and of the last. */
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
  readonly #seen = new Map<string, Seen>()

  constructor(log: Logger) {
    this.#log = log
  }

  /** A record was appended for this target at this time. */
  came(target: string, atMs: number): void {
    const seen = this.#of(target)
    if (seen.count === 0 || atMs - seen.firstMs > windowMsMax) {
      seen.firstMs = atMs
      seen.count = 0
    }
    seen.count++
    seen.lastMs = atMs
  }

  tried(target: string, failed: boolean, tookMs: number): void {
    const seen = this.#of(target)
    // Halving keeps the newest hundreds in the majority.
    if (seen.attempts >= 1_000) {
      seen.attempts /= 2
      seen.failed /= 2
    }
    seen.attempts++
    if (failed) seen.failed++
    else seen.callMs += (tookMs - seen.callMs) / Math.min(seen.attempts, 100)
  }

  /** The file was read anew: what was warned of may be mended. */
  renewed(): void {
    for (const seen of this.#seen.values()) seen.warned = false
  }

  /** Warns of each target once. */
  look(targets: Iterable<WebhookTarget>): void {
    for (const target of targets) {
      const seen = this.#seen.get(target.name)
      if (!seen) continue
      const traffic = trafficOf(seen)
      const { name, ordering, backoffMs, retry } = target
      // Lanes of agents share the rate in a way that nobody knows.
      if (traffic && ordering === 'target' && !seen.warned && laneLoad(target, traffic) >= 1) {
        seen.warned = true
        const load = Number(laneLoad(target, traffic).toFixed(2))
        const enough = backoffWithin(recommendedLoad, retry, traffic)
        this.#log.warn(
          { target: name, load, ...rounded(traffic), backoff_ms: backoffMs, backoff_ms_enough: enough },
          'webhooks.lane-unstable: with this backoff_ms the target falls behind without end while it fails now and then',
        )
      }
    }
  }

  #of(target: string): Seen {
    let seen = this.#seen.get(target)
    if (!seen) {
      seen = { count: 0, firstMs: 0, lastMs: 0, attempts: 0, failed: 0, callMs: assumedCallMs, warned: false }
      this.#seen.set(target, seen)
    }
    return seen
  }
}

function trafficOf({ count, firstMs, lastMs, attempts, failed, callMs }: Seen): LaneTraffic | null {
  if (count < recordsMin) return null
  const ratePerS = (count - 1) / Math.max(windowSMin, (lastMs - firstMs) / 1_000)
  const failedShare = attempts >= attemptsMin ? failed / attempts : assumedFailedShare
  return { ratePerS, failedShare, callMs }
}

function rounded({ ratePerS, failedShare, callMs }: LaneTraffic) {
  return {
    rate_per_s: Number(ratePerS.toFixed(2)),
    failed_share: Number(failedShare.toFixed(3)),
    call_ms: Math.round(callMs),
  }
}
