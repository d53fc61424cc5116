/** The lanes of a partition whose heads failed: at most 256 retry at once, the rest waits for one of them. */

import { type BackoffOptions, backoffMs } from '#lib/backoff.ts'
import { Fifo } from './fifo.ts'
import type { Lane } from './lane.ts'
import { retryingLanesMax, retryWaitMsMax } from './limits.ts'

export class Retrying {
  readonly #backoff: BackoffOptions
  readonly #due: (lane: Lane) => void
  /** Tries told by the last commit whose records have not come yet: they hold places, too. */
  readonly #expected: () => number
  readonly #lanes = new Set<Lane>()
  readonly #stalled = new Fifo<{ lane: Lane; afterMs: number }>()
  readonly #timers = new Map<Lane, NodeJS.Timeout>()

  constructor(backoff: BackoffOptions, expected: () => number, due: (lane: Lane) => void) {
    this.#backoff = backoff
    this.#expected = expected
    this.#due = due
  }

  /** The head of a lane failed: it is due again after its back-off, or stalls when too many retry already. */
  failed(lane: Lane, afterMs: number): void {
    if (!this.#lanes.has(lane) && this.#lanes.size + this.#expected() >= retryingLanesMax) {
      this.#stalled.push({ lane, afterMs })
      return
    }
    this.#lanes.add(lane)
    const waitMs = Math.min(retryWaitMsMax, Math.max(afterMs, backoffMs(lane.attempts - 1, this.#backoff)))
    this.#timers.set(
      lane,
      setTimeout(() => {
        this.#timers.delete(lane)
        this.#due(lane)
      }, waitMs),
    )
  }

  /** A head with counted tries comes from an earlier owner of the partition. */
  resumed(lane: Lane): void {
    this.#lanes.add(lane)
  }

  /** The head of a lane is settled. */
  settled(lane: Lane): void {
    if (!this.#lanes.delete(lane)) return
    const next = this.#stalled.shift()
    if (next) this.failed(next.lane, next.afterMs)
  }

  attempts(): [offset: number, count: number][] {
    return [...this.#lanes].map((lane) => [lane.head.offset, lane.attempts])
  }

  clear(): void {
    for (const timer of this.#timers.values()) clearTimeout(timer)
    this.#timers.clear()
    this.#stalled.clear()
    this.#lanes.clear()
  }
}
