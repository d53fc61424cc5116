/** The lanes of a partition: records in order, of which only the head is at work; and the heads that wait for a time. */

import type { StoredRecord } from '#engines/event-log/port.ts'
import { retryingLanesMax, retryWaitMsMax } from './limits.ts'
import type { Attempts } from './metadata.ts'
import { Queue } from './record-buffer.ts'

export class Lane {
  readonly key: string
  readonly records = new Queue<StoredRecord>()
  /** Failed tries of the head. */
  attempts = 0
  /** What the handler keeps with them. */
  retriesUsed = 0

  constructor(key: string) {
    this.key = key
  }

  /** A lane without records is dropped at once. */
  get head(): StoredRecord {
    return this.records.peek()!
  }
}

/** The lane of a record's own key. Latin-1 keeps different bytes different, and is quicker than UTF-8. */
export function keyOf(record: StoredRecord): string {
  return record.key === null ? '' : record.key.toString('latin1')
}

/**
 * Lanes whose head waits for a time. At most 256 lanes with failed attempts retry at once, further ones wait for a free
 * place; heads that were only postponed need no place.
 */
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
    const places = retryingLanesMax - this.#lanes.size - this.#awaited()
    // Without any in place nobody would free one: records that are awaited may come only behind those that stall.
    if (!this.#lanes.has(lane) && places <= 0 && this.#lanes.size > 0) {
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

/** How a handler asks for heads that wait for a time to be tried now: made before the handler and the consumer. */
export class LaneWakeups {
  readonly #partitions = new Set<number>()
  #listener: ((partition: number) => void) | null = null

  /** Heads of this partition that wait for a time are tried now. Many requests of one turn of the event loop are one. */
  wake(partition: number): void {
    if (this.#partitions.size === 0) setImmediate(() => this.#deliver())
    this.#partitions.add(partition)
  }

  /** For the consumer. Before it listens no head can be waiting, so nothing is lost. */
  listen(listener: (partition: number) => void): void {
    this.#listener = listener
  }

  #deliver(): void {
    const partitions = [...this.#partitions]
    this.#partitions.clear()
    for (const partition of partitions) this.#listener?.(partition)
  }
}
