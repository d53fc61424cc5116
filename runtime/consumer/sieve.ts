/** Which arriving records are work: not those below the position, not those settled before a restart, no repeats. */

import type { StoredRecord } from '#engines/event-log/port.ts'
import { headerNames } from '../messages.ts'
import { EventIdRing } from './event-id-ring.ts'
import { windowOffsets } from './limits.ts'
import type { SavedState } from './metadata.ts'

export type Sifted =
  | 'work'
  /** Read back for the ring alone: it lies below the position. */
  | 'before'
  /** Settled before a restart, or a second copy of an event: passed over. */
  | 'settled'

export class Sieve {
  /** Settled offsets and counted tries from the last commit whose records have not come yet. */
  readonly finished: Set<number>
  readonly attempts: Map<number, number>
  readonly #position: number
  readonly #ring: EventIdRing | null

  readonly #repeated: () => void

  /** `repeated` hears of each second copy of an event. */
  constructor(position: number, saved: SavedState, dropsRepeats: boolean, repeated: () => void) {
    this.#repeated = repeated
    this.#position = position
    this.finished = saved.finished
    this.attempts = saved.attempts
    this.#ring = dropsRepeats ? new EventIdRing() : null
  }

  /** To be asked once for each record, in the order of offsets. */
  sift(record: StoredRecord): Sifted {
    const id = this.#ring === null ? undefined : eventIdOf(record)
    const fresh = id === undefined || this.#ring!.add(id)
    if (record.offset < this.#position) return 'before'
    if (this.finished.size > 0) {
      if (this.finished.delete(record.offset)) return 'settled'
      if (record.offset >= this.#position + windowOffsets) this.finished.clear()
    }
    if (fresh) return 'work'
    this.#repeated()
    this.attempts.delete(record.offset)
    return 'settled'
  }

  /** Tries that a record had before this owner's time; asked once, when its own counting begins. */
  takeAttempts(offset: number): number {
    if (this.attempts.size === 0) return 0
    const count = this.attempts.get(offset) ?? 0
    this.attempts.delete(offset)
    return count
  }
}

function eventIdOf(record: StoredRecord): string | Uint8Array | undefined {
  return record.headerBytes ? record.headerBytes(headerNames.eventId) : record.headers[headerNames.eventId]
}
