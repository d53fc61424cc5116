/** Fetched records of one partition that nobody took yet: bounded, with pause and resume of the fetching. */

import type { StoredRecord } from '#engines/event-log/port.ts'
import { intakeRecordsMax, recordOverheadBytes } from './limits.ts'
import { Fifo } from './queue.ts'

export interface IntakeOptions {
  /** Bytes above which fetching stops; it goes on below a quarter of them. Asked anew each time. */
  bytesMax(): number
  pause(): void
  resume(): void
}

export function recordBytes(record: StoredRecord): number {
  return (record.bytes ?? (record.value?.length ?? 0) + (record.key?.length ?? 0)) + recordOverheadBytes
}

export class Intake {
  readonly #options: IntakeOptions
  readonly #chunks = new Fifo<{ records: StoredRecord[]; bytes: number }>()
  /** Index in the first chunk. */
  #at = 0
  #count = 0
  #bytes = 0
  #full = false
  #paused = false
  #held = false
  #urged = false

  constructor(options: IntakeOptions) {
    this.#options = options
  }

  get count(): number {
    return this.#count
  }

  push(records: StoredRecord[]): void {
    if (records.length === 0) return
    let bytes = 0
    for (const record of records) bytes += recordBytes(record)
    this.#bytes += bytes
    this.#count += records.length
    this.#chunks.push({ records, bytes })
    this.regulate()
  }

  peek(): StoredRecord | undefined {
    return this.#chunks.peek()?.records[this.#at]
  }

  shift(): StoredRecord | undefined {
    const chunk = this.#chunks.peek()
    if (!chunk) return undefined
    const record = chunk.records[this.#at++]!
    this.#count--
    // The chunk holds all of its records as long as one of them is here.
    if (this.#at === chunk.records.length) {
      this.#chunks.shift()
      this.#at = 0
      this.#bytes -= chunk.bytes
    }
    return record
  }

  /** Fetching stands still as long as it is held (the group is paused). */
  hold(held: boolean): void {
    this.#held = held
    this.regulate()
  }

  /** Fetching goes on although the intake is full: records dropped before are read again. */
  urge(urged: boolean): void {
    this.#urged = urged
    this.regulate()
  }

  /** Called after records were taken. */
  regulate(): void {
    const max = this.#options.bytesMax()
    if (this.#bytes >= max || this.#count >= intakeRecordsMax) this.#full = true
    // Seldom rather than soon: a client may throw away what it fetches for a partition while that one is paused.
    else if (this.#bytes <= max / 4 && this.#count <= intakeRecordsMax / 4) this.#full = false
    const pause = this.#held || (this.#full && !this.#urged)
    if (pause === this.#paused) return
    this.#paused = pause
    if (pause) this.#options.pause()
    else this.#options.resume()
  }

  clear(): void {
    this.#chunks.clear()
    this.#at = 0
    this.#count = 0
    this.#bytes = 0
  }
}
