/** Which arriving records are work: not those below the position, not those settled before a restart, no repeats. */

import type { StoredRecord } from '#engines/event-log/port.ts'
import { headerNames } from '../messages.ts'
import { EventIdRing } from './event-id-ring.ts'
import { windowOffsets } from './limits.ts'
import type { Attempts, SavedState } from './metadata.ts'

export type Sifted =
  | 'work'
  /** Read back for the ring alone: it lies below the position. */
  | 'before'
  /** Settled before a restart. */
  | 'settled'
  /** A second copy of an event. */
  | 'repeat'

export class Sieve {
  /** Settled offsets and counted tries from the last commit whose records have not come yet. */
  readonly finished: Set<number>
  readonly #attempts: Map<number, number>
  readonly #spent: Map<number, number>
  readonly #position: number
  readonly #ring: EventIdRing | null

  readonly #repeated: () => void

  /** `repeated` hears of each second copy of an event. */
  constructor(position: number, saved: SavedState, dropsRepeats: boolean, repeated: () => void) {
    this.#repeated = repeated
    this.#position = position
    this.finished = saved.finished
    this.#attempts = saved.attempts
    this.#spent = saved.spent
    this.#ring = dropsRepeats ? new EventIdRing() : null
  }

  /** To be asked once for each record, in the order of offsets. */
  sift(record: StoredRecord): Sifted {
    const id = this.#ring === null ? undefined : eventIdOf(record)
    const fresh = id === undefined || this.#ring!.add(id)
    if (record.offset < this.#position) return fresh ? 'before' : 'repeat'
    if (this.finished.size > 0) {
      if (this.finished.delete(record.offset)) return 'settled'
      if (record.offset >= this.#position + windowOffsets) this.finished.clear()
    }
    if (fresh) return 'work'
    this.#repeated()
    this.#attempts.delete(record.offset)
    return 'repeat'
  }

  /** Records with tries of before whose own counting has not begun. */
  get expected(): number {
    return this.#attempts.size
  }

  attempts(): Attempts[] {
    if (this.#attempts.size === 0) return []
    return [...this.#attempts].map(([offset, count]) => ({
      offset,
      count,
      spent: this.#spentOf(offset, count),
    }))
  }

  /** Tries that a record had before this owner's time; asked once, when its own counting begins. */
  takeAttempts(offset: number): { count: number; spent: number } {
    const count = this.#attempts.size === 0 ? undefined : this.#attempts.get(offset)
    if (count === undefined) return noAttempts
    const spent = this.#spentOf(offset, count)
    this.#attempts.delete(offset)
    this.#spent.delete(offset)
    return { count, spent }
  }

  #spentOf(offset: number, count: number): number {
    return this.#spent.get(offset) ?? count
  }
}

const noAttempts = Object.freeze({ count: 0, spent: 0 })

function eventIdOf(record: StoredRecord): string | Uint8Array | undefined {
  return record.headerBytes ? record.headerBytes(headerNames.eventId) : record.headers[headerNames.eventId]
}
