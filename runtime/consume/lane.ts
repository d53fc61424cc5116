/** One lane of a partition: its records in order, of which only the head is at work. */

import type { StoredRecord } from '#engines/event-log/port.ts'
import { copyOut } from './copied-record.ts'
import { recordBytes } from './record-buffer.ts'

export interface LaneEntry {
  offset: number
  /** When it was appended, in milliseconds. */
  timestamp: number
  bytes: number
  /** null when the body was dropped for lack of room: it is read again when its turn comes. */
  record: StoredRecord | null
  next: LaneEntry | null
}

export function entryOf(record: StoredRecord): LaneEntry {
  const { offset, timestamp } = record
  return { offset, timestamp, bytes: recordBytes(record), record, next: null }
}

/** What is at the watermark is the head of its lane: nothing before it is open. */
export function headAt(lanes: Iterable<Lane>, watermark: number): LaneEntry | undefined {
  for (const { head } of lanes) if (head.offset === watermark) return head
  return undefined
}

export class Lane {
  readonly key: string
  head: LaneEntry
  /** Failed tries of the head. */
  attempts = 0
  /** What the handler keeps with them. */
  retriesUsed = 0
  #tail: LaneEntry
  /** The first entry that is not copied out, and the last one that was there when it was last asked to be. */
  #fresh: LaneEntry | null
  #seen: LaneEntry | null = null

  constructor(key: string, first: LaneEntry) {
    this.key = key
    this.head = first
    this.#tail = first
    this.#fresh = first
  }

  get tail(): LaneEntry {
    return this.#tail
  }

  push(entry: LaneEntry): void {
    this.#tail.next = entry
    this.#tail = entry
    this.#fresh ??= entry
  }

  /** Called now and then: what was here the last time already is copied out. */
  copyOut(): void {
    for (let entry = this.#seen && this.#fresh; entry; entry = entry === this.#seen ? null : entry.next) {
      if (entry.record) entry.record = copyOut(entry.record)
      this.#fresh = entry.next
    }
    this.#seen = this.#tail
  }

  /** Drops the head; false when the lane is empty now. */
  shift(): boolean {
    const { next } = this.head
    if (!next) return false
    // A dead entry that points on would carry all that follow into the old generation, where they wait for a full collection.
    if (this.#fresh === this.head) this.#fresh = next
    if (this.#seen === this.head) this.#seen = null
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
