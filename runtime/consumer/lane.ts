/** One lane of a partition: its records in order, of which only the head is at work. */

import type { StoredRecord } from '#engines/event-log/port.ts'

export interface LaneEntry {
  offset: number
  bytes: number
  /** null when the body was dropped for lack of room: it is read again when its turn comes. */
  record: StoredRecord | null
  next: LaneEntry | null
}

export class Lane {
  readonly key: string
  head: LaneEntry
  /** Failed tries of the head. */
  attempts = 0
  /** What the handler keeps with them. */
  retriesUsed = 0
  #tail: LaneEntry

  constructor(key: string, first: LaneEntry) {
    this.key = key
    this.head = first
    this.#tail = first
  }

  get tail(): LaneEntry {
    return this.#tail
  }

  push(entry: LaneEntry): void {
    this.#tail.next = entry
    this.#tail = entry
  }

  /** Drops the head; false when the lane is empty now. */
  shift(): boolean {
    const { next } = this.head
    if (!next) return false
    // A dead entry that points on would carry all that follow into the old generation, where they wait for a full collection.
    this.head.next = null
    this.head.record = null
    this.head = next
    this.attempts = 0
    this.retriesUsed = 0
    return true
  }
}

/** The lane of a record's own key. Latin-1 keeps different bytes different, and is quicker than UTF-8. */
export function keyOf(record: StoredRecord): string {
  return record.key === null ? '' : record.key.toString('latin1')
}
