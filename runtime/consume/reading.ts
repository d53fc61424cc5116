/** Where a partition is read: sorts what arrives by where work begins, and decides what a gap in the log means. */

import type { StoredRecord } from '#engines/event-log/port.ts'
import { type Doubt, misplacedReason, missedDeletions, type Start, staleReason } from './position.ts'

const falseAlarmsMax = 10

export class Reading {
  /** Next to be read. */
  #position: number
  readonly #workFrom: number
  #doubt: Doubt | null
  /** Positions called misplaced although the log holds them, since the last records came. */
  #falseAlarms = 0

  constructor(start: Extract<Start, { kind: 'start' }>) {
    this.#position = start.readFrom
    this.#workFrom = start.position
    this.#doubt = start.doubt
  }

  /** True while it is not known yet whether deletions were missed. */
  get doubtful(): boolean {
    return this.#doubt !== null
  }

  /** `back` lie below the position where work begins. What came before is left out, whatever a log delivers after a seek. */
  take(records: StoredRecord[]): { back: StoredRecord[]; fresh: StoredRecord[] } {
    this.#falseAlarms = 0
    const from = firstFrom(records, this.#position)
    const workFrom = Math.max(from, firstFrom(records, this.#workFrom))
    this.#position = Math.max(this.#position, records.at(-1)!.offset + 1)
    if (workFrom === 0) return { back: [], fresh: records }
    return { back: records.slice(from, workFrom), fresh: records.slice(workFrom) }
  }

  /**
   * For a group that made no progress for long: why it must not go on, or when the first record was written that it has not
   * seen. Null: nothing is to be said.
   */
  judge(records: StoredRecord[], nowMs: number): { stop: string } | { writtenAtMs: number } | null {
    const doubt = this.#doubt
    const next = doubt && records.find((record) => record.offset >= doubt.offset && !record.hidden)
    if (!next) return null
    this.#doubt = null
    return missedDeletions(doubt, next, nowMs)
      ? { stop: staleReason(doubt.ageMs) }
      : { writtenAtMs: next.timestamp }
  }

  /** The log cannot be read on: the offset to go on at, or why nothing may be read. */
  misplaced({ position, start, end }: { position: number; start: number; end: number }): number | string {
    // Records that are read back for their ids alone may expire meanwhile.
    if (position < start && start <= this.#workFrom) return start
    // A fetch from before a seek may say so of a position that is there: it is asked again.
    if (position >= start && position <= end && this.#falseAlarms++ < falseAlarmsMax) return position
    return misplacedReason({ position, start, end })
  }
}

/** Index of the first record at or beyond `offset`. */
function firstFrom(records: StoredRecord[], offset: number): number {
  if (records[0]!.offset >= offset) return 0
  const at = records.findIndex((record) => record.offset >= offset)
  return at < 0 ? records.length : at
}
