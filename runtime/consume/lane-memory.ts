/** Limits the memory of records that wait in lanes: a body that finds no room is dropped and read again in its turn. */

import type { StoredRecord } from '#engines/event-log/port.ts'
import { copyOut } from './copied-record.ts'
import type { Lane, LaneEntry } from './lane.ts'

interface LaneMemoryOptions {
  bytesMax(): number
  /** Reads again from an offset. Nothing that was fetched for another position is delivered after it. */
  readAgainFrom(offset: number): void
  /** Ends reading again: goes on with what was never read. */
  readOn(): void
  /** The head of a lane has its body again. */
  arrived(lane: Lane): void
  /** The log holds the record of this head no longer (compacted away): it is superseded. */
  vanished(lane: Lane): void
}

export class LaneMemory {
  readonly #options: LaneMemoryOptions
  #bytes = 0
  readonly #dropped = new Map<number, LaneEntry>()
  /** Lanes whose head's body is missing, by its offset. */
  readonly #needed = new Map<number, Lane>()
  /** While records that were read before are read again: everything up to this offset has come. */
  #through: number | null = null

  constructor(options: LaneMemoryOptions) {
    this.#options = options
  }

  get bytes(): number {
    return this.#bytes
  }

  get reading(): boolean {
    return this.#through !== null
  }

  /** True when what comes next may not find room. */
  get full(): boolean {
    return this.#bytes >= this.#options.bytesMax() / 2
  }

  /**
   * A record enters a lane. A head always keeps its body. One that waits does as long as there is room and none before
   * it was dropped: what comes later must not hold the room that what comes sooner is read again into.
   */
  admit(entry: LaneEntry, lane: Lane | undefined): void {
    if (lane && (lane.tail.record === null || this.#bytes + entry.bytes > this.#options.bytesMax()))
      this.#drop(entry)
    else this.#bytes += entry.bytes
  }

  /** A head starts to wait for its next try: it gives its body up when memory is short. */
  headWaits(entry: LaneEntry): void {
    if (entry.record === null || this.#bytes <= this.#options.bytesMax()) return
    this.#bytes -= entry.bytes
    this.#drop(entry)
  }

  /** A record is settled. */
  release(entry: LaneEntry): void {
    if (entry.record === null) this.#dropped.delete(entry.offset)
    else this.#bytes -= entry.bytes
  }

  /** The head of this lane could run if it had its body. */
  need(lane: Lane): void {
    this.#needed.set(lane.head.offset, lane)
    if (this.#through === null || lane.head.offset <= this.#through) this.#read()
  }

  /**
   * Records came while reading again: `again` are those that were read before (most of them are not needed), `caughtUp`
   * says that new ones follow.
   */
  refill(again: StoredRecord[], caughtUp: boolean): void {
    const from = this.#through
    if (from === null) return
    for (const record of again) this.#fill(record)
    const through = caughtUp ? Number.MAX_SAFE_INTEGER : again.at(-1)!.offset
    for (const [offset, lane] of [...this.#needed]) {
      if (offset <= from || offset > through) continue
      this.#needed.delete(offset)
      this.#options.vanished(lane)
    }
    this.#through = caughtUp ? null : through
    if (!caughtUp) this.#endEarly()
  }

  clear(): void {
    this.#dropped.clear()
    this.#needed.clear()
    this.#through = null
  }

  #drop(entry: LaneEntry): void {
    entry.record = null
    this.#dropped.set(entry.offset, entry)
  }

  #fill(record: StoredRecord): void {
    const entry = this.#dropped.get(record.offset)
    if (!entry) return
    const lane = this.#needed.get(record.offset)
    if (!lane && this.#bytes + entry.bytes > this.#options.bytesMax()) return
    this.#dropped.delete(record.offset)
    entry.record = copyOut(record)
    this.#bytes += entry.bytes
    if (!lane) return
    this.#needed.delete(record.offset)
    this.#options.arrived(lane)
  }

  /** Nobody waits for what comes next, and there is no room for it: the rest is not read again. */
  #endEarly(): void {
    if (this.#needed.size > 0 || this.#bytes < this.#options.bytesMax() / 2) return
    this.#through = null
    this.#options.readOn()
  }

  #read(): void {
    const from = Math.min(...this.#needed.keys())
    this.#through = from - 1
    this.#options.readAgainFrom(from)
  }
}
