/** One lane of a partition: its records that wait, in order, and what it does now. */

import type { StoredRecord } from '#engines/event-log/port.ts'
import type { SchemaName } from '#topics/topic.ts'
import type { LaneOptions } from '../consumer.ts'
import { type Decoded, Fault } from './decode.ts'

export interface Entry {
  offset: number
  bytes: number
  /** null when the body was dropped for want of room: it is read again when its turn comes. */
  record: StoredRecord | null
  next: Entry | null
}

export class Lane {
  readonly key: string
  head: Entry
  /** Failed tries of the head. */
  attempts = 0
  /** What the handler keeps with them. */
  spent = 0
  #tail: Entry

  constructor(key: string, first: Entry) {
    this.key = key
    this.head = first
    this.#tail = first
  }

  get tail(): Entry {
    return this.#tail
  }

  push(entry: Entry): void {
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
    this.spent = 0
    return true
  }
}

/** The lane of a record's own key. Latin-1 keeps different bytes different, and is quicker than UTF-8. */
export function keyOf(record: StoredRecord): string {
  return record.key === null ? '' : record.key.toString('latin1')
}

/** A record without a lane of its own (it cannot be decoded, or `lane` fails on it) takes its place among its key's. */
export function laneOf(
  decoded: Decoded,
  record: StoredRecord,
  lane: NonNullable<LaneOptions<SchemaName>['lane']>,
): string {
  try {
    if (decoded !== null && !(decoded instanceof Fault)) return lane(decoded)
  } catch {
    // The handler will meet the same fault and be judged by it.
  }
  return keyOf(record)
}
