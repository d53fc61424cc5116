/**
 * What an earlier owner of a partition left behind: records that it settled beyond its position, attempts that it
 * counted, and the ids of events. By it each arriving record is sorted: to be worked on, or not.
 */

import type { StoredRecord } from '#engines/event-log/port.ts'
import { headerNames } from '../publish/messages.ts'
import { type Bookkeeping, EventIdRing } from './event-ids.ts'
import { ringIdsMax, windowOffsets } from './limits.ts'
import type { Attempts, SavedState } from './metadata.ts'

type RecordClass =
  | 'work'
  /** Read back for its event id alone: it lies below the position. */
  | 'below'
  /** Settled before a restart. */
  | 'settled'
  /** A second copy of an event. */
  | 'repeat'
  /** Nothing: the position moves over it. */
  | 'hidden'

const noAttempts = Object.freeze({ count: 0, retriesUsed: 0 })

export class ResumeState {
  /** Settled offsets from the last commit whose records have not come yet. */
  readonly settled: Set<number>
  /** Attempts, by offset, of records that have not come yet. */
  readonly #attempts: Map<number, number>
  readonly #retriesUsed: Map<number, number>
  readonly #position: number
  readonly #ring: EventIdRing | null
  readonly #onRepeat: () => void

  /** `memory` is what the event ids take theirs from; null: repeats are not dropped. */
  constructor(
    position: number,
    saved: SavedState,
    options: { memory: Bookkeeping | null; onRepeat(): void },
  ) {
    this.#position = position
    this.settled = saved.settled
    this.#attempts = saved.attempts
    this.#retriesUsed = saved.retriesUsed
    this.#ring = options.memory === null ? null : new EventIdRing(ringIdsMax, options.memory)
    this.#onRepeat = options.onRepeat
  }

  /** The partition is gone. */
  close(): void {
    this.#ring?.close()
  }

  /** To be called once for each record, in the order of offsets. */
  classify(record: StoredRecord): RecordClass {
    if (record.hidden) return 'hidden'
    const id = this.#ring === null ? undefined : eventIdOf(record)
    const fresh = id === undefined || this.#ring!.add(id)
    if (record.offset < this.#position) return fresh ? 'below' : 'repeat'
    if (this.settled.size > 0) {
      if (this.settled.delete(record.offset)) return 'settled'
      if (record.offset >= this.#position + windowOffsets) this.settled.clear()
    }
    if (fresh) return 'work'
    this.#onRepeat()
    this.#attempts.delete(record.offset)
    return 'repeat'
  }

  /** Records with attempts that have not come yet. */
  get awaited(): number {
    return this.#attempts.size
  }

  /** Attempts of records that have not come yet: every commit has to keep them. */
  attempts(): Attempts[] {
    if (this.#attempts.size === 0) return []
    return [...this.#attempts].map(([offset, count]) => ({
      offset,
      count,
      retriesUsed: this.#retriesUsedOf(offset, count),
    }))
  }

  /** Attempts that a record had under earlier owners; asked once, when this owner begins to count them. */
  takeAttempts(offset: number): { count: number; retriesUsed: number } {
    const count = this.#attempts.size === 0 ? undefined : this.#attempts.get(offset)
    if (count === undefined) return noAttempts
    const retriesUsed = this.#retriesUsedOf(offset, count)
    this.#attempts.delete(offset)
    this.#retriesUsed.delete(offset)
    return { count, retriesUsed }
  }

  #retriesUsedOf(offset: number, count: number): number {
    return this.#retriesUsed.get(offset) ?? count
  }
}

function eventIdOf(record: StoredRecord): Uint8Array | undefined {
  if (record.headerBytes) return record.headerBytes(headerNames.eventId)
  const text = record.headers[headerNames.eventId]
  return text === undefined ? undefined : Buffer.from(text)
}
