/** One lane of a partition: its records that wait, in order, and what it does now. */

import type { StoredRecord } from '#engines/event-log/port.ts'
import type { SchemaName } from '#topics/topic.ts'
import type { LaneOptions } from '../consumer.ts'
import type { Decoded } from './decode.ts'

export interface Entry {
  offset: number
  bytes: number
  /** null when the body was dropped for want of room: it is read again when its turn comes. */
  record: StoredRecord | null
  next: Entry | null
}

export type LaneState =
  /** In the queue for a slot. */
  | 'ready'
  /** Its head is at the handler, or on its way into the dead letters. */
  | 'running'
  /** Its head failed and waits for its next try; holds no slot. */
  | 'waiting'
  /** Its head failed once and waits until one of the lanes that retry is through. */
  | 'stalled'
  /** Its head's body is being read again. */
  | 'fetching'

export class Lane {
  readonly key: string
  state: LaneState = 'ready'
  head: Entry
  /** Failed tries of the head. */
  attempts = 0
  #tail: Entry

  constructor(key: string, first: Entry) {
    this.key = key
    this.head = first
    this.#tail = first
  }

  push(entry: Entry): void {
    this.#tail.next = entry
    this.#tail = entry
  }

  /** Drops the head; false when the lane is empty now. */
  shift(): boolean {
    const next = this.head.next
    if (!next) return false
    this.head = next
    this.attempts = 0
    return true
  }
}

/** A record without a lane of its own (it cannot be decoded, or `lane` fails on it) takes its place among its key's. */
export function laneOf(
  { message }: Decoded,
  record: StoredRecord,
  lane: NonNullable<LaneOptions<SchemaName>['lane']>,
): string {
  try {
    if (message !== null) return lane(message)
  } catch {
    // The handler will meet the same fault and be judged by it.
  }
  return record.key?.toString() ?? ''
}
