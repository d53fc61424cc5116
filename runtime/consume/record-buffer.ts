/**
 * Records that wait: a queue, the buffer of those that a partition has fetched (which pauses fetching while it is full), and
 * copies of those that wait for long.
 */

import type { StoredRecord } from '#engines/event-log/port.ts'
import { timeBehind } from '#lib/backoff.ts'
import { recordBytes } from '../follow/follow-topic.ts'
import { recordOverheadBytes } from './limits.ts'

interface RecordBufferOptions {
  /** Bytes above which fetching stops; it goes on below a quarter of them. Asked each time. */
  bytesMax(): number
  /** The same for their number. */
  recordsMax: number
  /** Whether nothing is fetched for a while, however much there is room for; asked each time. */
  rests?(): boolean
  pause(): void
  resume(): void
}

interface Chunk {
  records: StoredRecord[]
  bytes: number
  seen: boolean
}

/** What a record takes in memory. */
export function heldBytes(record: StoredRecord): number {
  return recordBytes(record) + recordOverheadBytes
}

/** What a record was read with; undefined for one without bytes. */
function blockOf({ value, key }: StoredRecord): ArrayBufferLike | undefined {
  return (value ?? key)?.buffer
}

/** Bytes that wait in a group, by the block of memory that they were read with: a response may serve many partitions. */
export type Shares = Map<ArrayBufferLike, number>

export function addShare(shares: Shares, record: StoredRecord, bytes: number): void {
  const block = blockOf(record)
  if (block) shares.set(block, (shares.get(block) ?? 0) + bytes)
}

/** True when the block of a record is more than twice as large as all that waits of it: copies take less. */
export function isHardlyNeeded(record: StoredRecord, shares: Shares): boolean {
  const block = blockOf(record)
  return block !== undefined && block.byteLength > 2 * (shares.get(block) ?? 0)
}

/**
 * A record that waits, as a copy of its own. What a driver delivers is a view of all that was read with it (a block of
 * the embedded log, a fetch response of Kafka), and a single record that waits would keep that whole in memory.
 */
class CopiedRecord implements StoredRecord {
  readonly partition: number
  readonly offset: number
  readonly timestamp: number
  readonly key: Buffer | null
  readonly value: Buffer | null
  readonly headers: Record<string, string>
  readonly bytes: number

  constructor(record: StoredRecord) {
    const { key, value } = record
    this.partition = record.partition
    this.offset = record.offset
    this.timestamp = record.timestamp
    this.headers = record.headers
    const keyBytes = key?.length ?? 0
    const valueBytes = value?.length ?? 0
    this.bytes = recordBytes(record)
    // Not of Node's pool, whose pieces are shared with whatever else was made at the time.
    const own = Buffer.from(new ArrayBuffer(keyBytes + valueBytes))
    this.key = key && own.subarray(0, keyBytes)
    this.value = value && own.subarray(keyBytes)
    if (key) own.set(key, 0)
    if (value) own.set(value, keyBytes)
  }

  headerBytes(name: string): Buffer | undefined {
    const text = Object.hasOwn(this.headers, name) ? this.headers[name] : undefined
    return text === undefined ? undefined : Buffer.from(text)
  }
}

/** The record itself when it is a copy already, or a hidden one, which is a view of nothing. */
export function copyOut(record: StoredRecord): StoredRecord {
  return record instanceof CopiedRecord || record.hidden ? record : new CopiedRecord(record)
}

/** A queue whose oldest item is taken in constant time (`Array.shift` moves all that follow). */
export class Queue<T> {
  #items: (T | undefined)[] = []
  #head = 0

  get length(): number {
    return this.#items.length - this.#head
  }

  push(item: T): void {
    this.#items.push(item)
  }

  peek(): T | undefined {
    return this.#items[this.#head]
  }

  shift(): T | undefined {
    const item = this.#items[this.#head]
    if (this.#head >= this.#items.length) return undefined
    this.#items[this.#head++] = undefined
    if (this.#head > 1_023 && this.#head * 2 > this.#items.length) {
      this.#items = this.#items.slice(this.#head)
      this.#head = 0
    }
    return item
  }

  *[Symbol.iterator](): Generator<T> {
    for (let at = this.#head; at < this.#items.length; at++) yield this.#items[at]!
  }

  /** Puts what `make` returns in the place of each item. */
  replace(make: (item: T) => T): void {
    for (let at = this.#head; at < this.#items.length; at++) this.#items[at] = make(this.#items[at]!)
  }

  clear(): void {
    this.#items = []
    this.#head = 0
  }
}

/**
 * While it is on nothing is fetched, so that new records of all partitions of a group are fetched together at the next of the
 * times that are `everyMs` apart; 0: never on.
 */
export class Gathering {
  readonly #everyMs: number
  readonly #changed: () => void
  #begun = false
  isOn = false

  constructor(everyMs: number, changed: () => void) {
    this.#everyMs = everyMs
    this.#changed = changed
  }

  /** Records came. Where the last of them is older than a rest, more are there already. */
  begin(records: StoredRecord[]): void {
    if (this.#everyMs === 0 || this.#begun) return
    if ((records.at(-1)?.timestamp ?? 0) < Date.now() - this.#everyMs) return
    this.#begun = true
    // Where a rest has just ended every partition goes on first: one that brings records at once must not keep the others from it.
    setImmediate(() => this.#rest())
  }

  #rest(): void {
    const now = performance.now()
    setTimeout(() => this.#set(false), timeBehind(now, this.#everyMs) - now).unref()
    this.#set(true)
  }

  #set(isOn: boolean): void {
    this.#begun = isOn
    this.isOn = isOn
    this.#changed()
  }
}

export class RecordBuffer {
  readonly #options: RecordBufferOptions
  readonly #chunks = new Queue<Chunk>()
  /** Index in the first chunk. */
  #at = 0
  count = 0
  #bytes = 0
  #full = false
  #paused = false
  #stopped = false

  constructor(options: RecordBufferOptions) {
    this.#options = options
  }

  push(records: StoredRecord[]): void {
    if (records.length === 0) return
    let bytes = 0
    for (const record of records) bytes += heldBytes(record)
    this.#bytes += bytes
    this.count += records.length
    this.#chunks.push({ records, bytes, seen: false })
    this.updateFetching()
  }

  peek(): StoredRecord | undefined {
    return this.#chunks.peek()?.records[this.#at]
  }

  shift(): StoredRecord | undefined {
    const chunk = this.#chunks.peek()
    if (!chunk) return undefined
    const record = chunk.records[this.#at++]!
    this.count--
    // The chunk holds all of its records as long as one of them is here.
    if (this.#at === chunk.records.length) {
      this.#chunks.shift()
      this.#at = 0
      this.#bytes -= chunk.bytes
    }
    return record
  }

  /** Adds the bytes that wait here. All of a chunk was read together. */
  addShares(shares: Shares): void {
    for (const { records, bytes } of this.#chunks) addShare(shares, records.at(-1)!, bytes)
  }

  /** Called now and then: records that were here the last time are copied, where copies take less. */
  copyOut(shares: Shares): void {
    const first = this.#chunks.peek()
    for (const chunk of this.#chunks) {
      if (chunk.seen && isHardlyNeeded(chunk.records.at(-1)!, shares)) {
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

  /** Called after records were taken, and when a rest begins or ends. */
  updateFetching(): void {
    const max = this.#options.bytesMax()
    const { recordsMax } = this.#options
    if (this.#bytes >= max || this.count >= recordsMax) this.#full = true
    // Seldom rather than soon: a client may throw away what it fetches for a partition while that one is paused.
    else if (this.#bytes <= max / 4 && this.count <= recordsMax / 4) this.#full = false
    const pause = this.#stopped || this.#full || this.#options.rests?.() === true
    if (pause === this.#paused) return
    this.#paused = pause
    if (pause) this.#options.pause()
    else this.#options.resume()
  }

  clear(): void {
    this.#chunks.clear()
    this.#at = 0
    this.count = 0
    this.#bytes = 0
  }
}
