/** Arrived records into their lanes, in the order of offsets; what was settled before is passed over, and told. */

import type { StoredRecord } from '#engines/event-log/port.ts'
import type { SchemaName } from '#topics/topic.ts'
import type { LaneOptions } from '../consumer.ts'
import { type Decoded, decodeRecord, Fault } from './decode.ts'
import { keyOf, laneOf } from './lane.ts'
import { passedRecordsMax } from './limits.ts'
import type { RunnerHost } from './partition-host.ts'
import type { Window } from './window.ts'

export interface LaneDoorParts {
  host: RunnerHost
  options: LaneOptions<SchemaName>
  window: Window
  /** A record enters its lane. */
  join(lane: string, record: StoredRecord): void
  /** What had to wait at the door is through. */
  opened(): void
}

export class LaneDoor {
  readonly #parts: LaneDoorParts
  /** Records that wait for their decoding: nothing may overtake them. */
  #held = 0
  #telling: Promise<void> | null = null
  /** The record that came last said so: to let more in than memory holds would find no other lane. */
  oneLane = false

  constructor(parts: LaneDoorParts) {
    this.#parts = parts
  }

  /** Lets records in as far as the window lasts and work is wanted. */
  admit(wanted: () => boolean): void {
    const { host, window } = this.#parts
    while (this.#held === 0 && wanted()) {
      const record = host.intake.peek()
      if (!record || !window.fits(record.offset)) return
      host.intake.shift()
      const fresh = window.span === 0
      window.admit(record.offset)
      const sifted = host.sieve.sift(record)
      if (sifted === 'work') {
        this.#enter(record, fresh)
        continue
      }
      if (sifted === 'settled') this.passed(record)
      window.finish(record.offset)
      host.committer.request()
    }
  }

  /** A record that was settled before this member's time. */
  passed(record: StoredRecord): void {
    const { host, options } = this.#parts
    if (!options.passed || record.offset < host.position - passedRecordsMax) return
    const decoded = decodeRecord(host, record)
    if (!(decoded instanceof Promise) && this.#telling === null) return void this.#tell(decoded)
    this.#held++
    this.#telling = (this.#telling ?? Promise.resolve()).then(async () => {
      this.#tell(await decoded)
      if (--this.#held > 0) return
      this.#telling = null
      if (!host.over) this.#parts.opened()
    })
  }

  #tell(decoded: Decoded): void {
    const { host, options } = this.#parts
    if (decoded === null || decoded instanceof Fault || host.over) return
    try {
      options.passed?.(decoded)
    } catch {
      // The handler would have met the same fault, and was judged by it.
    }
  }

  #enter(record: StoredRecord, fresh: boolean): void {
    const { host, options, join } = this.#parts
    const { lane, keyIsLane } = options
    const key = keyOf(record)
    this.oneLane = keyIsLane?.call(options, key, fresh) ?? false
    if (!lane || this.oneLane) return void join(key, record)
    const decoded = decodeRecord(host, record)
    if (!(decoded instanceof Promise)) return void join(laneOf(decoded, record, lane), record)
    this.#held++
    void decoded.then((late) => {
      this.#held--
      if (host.over) return
      join(laneOf(late, record, lane), record)
      this.#parts.opened()
    })
  }
}
