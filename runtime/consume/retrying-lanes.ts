/**
 * Lanes whose head waits for a time. At most 256 lanes with failed attempts retry at once, further ones wait for a free
 * place; heads that were only postponed need no place.
 */

import type { Lane } from './lane.ts'
import { retryingLanesMax, retryWaitMsMax } from './limits.ts'
import type { Attempts } from './metadata.ts'
import { Queue } from './queue.ts'

export class RetryingLanes {
  readonly #due: (lane: Lane) => void
  /** Records with attempts in the last commit that have not come yet: they hold places, too. */
  readonly #awaited: () => number
  readonly #lanes = new Set<Lane>()
  readonly #stalled = new Queue<{ lane: Lane; waitMs: number }>()
  readonly #timers = new Map<Lane, NodeJS.Timeout>()

  constructor(awaited: () => number, due: (lane: Lane) => void) {
    this.#awaited = awaited
    this.#due = due
  }

  /** True while a head waits for its time. */
  get waiting(): boolean {
    return this.#timers.size > 0
  }

  /** The head of a lane failed: it is due again after this wait, or stalls when too many retry already. */
  failed(lane: Lane, waitMs: number): void {
    if (!this.#lanes.has(lane) && this.#lanes.size + this.#awaited() >= retryingLanesMax) {
      this.#stalled.push({ lane, waitMs })
      return
    }
    this.#lanes.add(lane)
    this.postponed(lane, waitMs)
  }

  /** The head of a lane was not tried; it is due after this wait. */
  postponed(lane: Lane, waitMs: number): void {
    const due = () => {
      this.#timers.delete(lane)
      this.#due(lane)
    }
    this.#timers.set(lane, setTimeout(due, Math.min(retryWaitMsMax, waitMs)))
  }

  /** A head with counted tries comes from an earlier owner of the partition. */
  resumed(lane: Lane): void {
    this.#lanes.add(lane)
  }

  /** The head of a lane is settled. */
  settled(lane: Lane): void {
    if (!this.#lanes.delete(lane)) return
    const next = this.#stalled.shift()
    if (next) this.failed(next.lane, next.waitMs)
  }

  /** All that wait for a time are due now, those that have waited longest first. */
  wake(): void {
    const lanes = [...this.#timers]
    this.#timers.clear()
    for (const [, timer] of lanes) clearTimeout(timer)
    for (const [lane] of lanes) this.#due(lane)
  }

  attempts(): Attempts[] {
    const of = ({ head, attempts, retriesUsed }: Lane) => ({
      offset: head.offset,
      count: attempts,
      retriesUsed,
    })
    return [...this.#lanes].map(of)
  }

  clear(): void {
    for (const timer of this.#timers.values()) clearTimeout(timer)
    this.#timers.clear()
    this.#stalled.clear()
    this.#lanes.clear()
  }
}
