/** Holds fetched records of one partition until the runner takes them; pauses fetching while it is full. */

import type { StoredRecord } from '#engines/event-log/port.ts'
import { copyOut } from './copied-record.ts'
import { recordOverheadBytes } from './limits.ts'
import { Queue } from './queue.ts'

interface RecordBufferOptions {
  /** Bytes above which fetching stops; it goes on below a quarter of them. Asked each time. */
  bytesMax(): number
  /** The same for their number. */
  recordsMax: number
  /** After records came, nothing is fetched for this long: what comes meanwhile is fetched together. Default 0. */
  restMs?: number
  pause(): void
  resume(): void
}

interface Chunk {
  records: StoredRecord[]
  bytes: number
  /** What the records were read with, all together; undefined once they are copies. */
  block: ArrayBufferLike | undefined
  seen: boolean
}

export function recordBytes(record: StoredRecord): number {
  return (record.bytes ?? (record.value?.length ?? 0) + (record.key?.length ?? 0)) + recordOverheadBytes
}

/** What of each block of memory waits in a group, in bytes. */
export type Shares = Map<ArrayBufferLike, number>

/** What a record was read with; undefined for one without bytes. */
export function blockOf({ value, key }: StoredRecord): ArrayBufferLike | undefined {
  return (value ?? key)?.buffer
}

export function addShare(shares: Shares, block: ArrayBufferLike | undefined, bytes: number): void {
  if (block) shares.set(block, (shares.get(block) ?? 0) + bytes)
}

/** True when hardly anything of the block waits but what keeps all of it in memory. */
export function isHardlyNeeded(block: ArrayBufferLike | undefined, shares: Shares): boolean {
  return block !== undefined && block.byteLength > 2 * (shares.get(block) ?? 0)
}

export class RecordBuffer {
  readonly #options: RecordBufferOptions
  readonly #chunks = new Queue<Chunk>()
  /** Index in the first chunk. */
  #at = 0
  #count = 0
  #bytes = 0
  #full = false
  #paused = false
  #stopped = false
  #rest: NodeJS.Timeout | undefined

  constructor(options: RecordBufferOptions) {
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
    this.#chunks.push({ records, bytes, block: blockOf(records.at(-1)!), seen: false })
    const { restMs = 0 } = this.#options
    if (restMs > 0) this.#rest ??= setTimeout(() => this.#endRest(), restMs).unref()
    this.updateFetching()
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

  /** Adds what waits here to the shares of the group. */
  addShares(shares: Shares): void {
    for (const { block, bytes } of this.#chunks) addShare(shares, block, bytes)
  }

  /** Called now and then: what was here the last time already is copied out of a block that hardly anything else needs. */
  copyOut(shares: Shares): void {
    const first = this.#chunks.peek()
    for (const chunk of this.#chunks) {
      if (chunk.seen && isHardlyNeeded(chunk.block, shares)) {
        chunk.block = undefined
        chunk.records = chunk.records.slice(chunk === first ? this.#at : 0).map(copyOut)
        if (chunk === first) this.#at = 0
      }
      chunk.seen = true
    }
  }

  /** Nothing is fetched while it is stopped (the group is paused or leaves). */
  setStopped(stopped: boolean): void {
    this.#stopped = stopped
    this.updateFetching()
  }

  /** Called after records were taken. */
  updateFetching(): void {
    const max = this.#options.bytesMax()
    const { recordsMax } = this.#options
    if (this.#bytes >= max || this.#count >= recordsMax) this.#full = true
    // Seldom rather than soon: a client may throw away what it fetches for a partition while that one is paused.
    else if (this.#bytes <= max / 4 && this.#count <= recordsMax / 4) this.#full = false
    const pause = this.#stopped || this.#full || this.#rest !== undefined
    if (pause === this.#paused) return
    this.#paused = pause
    if (pause) this.#options.pause()
    else this.#options.resume()
  }

  #endRest(): void {
    this.#rest = undefined
    this.updateFetching()
  }

  clear(): void {
    clearTimeout(this.#rest)
    this.#rest = undefined
    this.#chunks.clear()
    this.#at = 0
    this.#count = 0
    this.#bytes = 0
  }
}
