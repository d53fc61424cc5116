/**
 * Packs many records into one ArrayBuffer, so that they cross a thread border as one. What comes out again is a view of its
 * bytes, whose parts are made only when they are asked for. Records get the log's own time.
 */

import type { NewRecord, StoredRecord } from '../port.ts'

/**
 * Numbers in front of a block's bytes, five a record: offset, timestamp, length of key, value and headers (-1 is
 * null).
 */
export const fields = 5
export const fieldBytes = 8 * fields
/** A record has this many parts, each with a length. */
export const partsOfRecord = 3

/** A record whose headers are already text (JSON, empty for none). */
export interface PreparedRecord {
  key: Uint8Array | null
  value: Uint8Array | null
  headers: string
}

/** What a record weighs: key, value and headers. */
export function weigh(record: PreparedRecord): number {
  return (record.key?.length ?? 0) + (record.value?.length ?? 0) + Buffer.byteLength(record.headers)
}

export function prepare(record: NewRecord): PreparedRecord {
  let headers = ''
  for (const _ in record.headers) {
    headers = JSON.stringify(record.headers)
    break
  }
  return { key: record.key, value: record.value, headers }
}

/** Packs records; `bytes` is the sum of their weights. Offsets are filled in where they are known. */
export function packPrepared(records: PreparedRecord[], bytes: number, timestamp: number): ArrayBuffer {
  const block = new ArrayBuffer(records.length * fieldBytes + bytes)
  const numbers = new Float64Array(block, 0, records.length * fields)
  const target = Buffer.from(block)
  let at = records.length * fieldBytes
  let field = 0
  for (const { key, value, headers } of records) {
    numbers[field + 1] = timestamp
    numbers[field + 2] = key?.length ?? -1
    numbers[field + 3] = value?.length ?? -1
    if (key) target.set(key, at)
    at += key?.length ?? 0
    if (value) target.set(value, at)
    at += value?.length ?? 0
    const length = headers === '' ? 0 : target.write(headers, at)
    numbers[field + 4] = length
    at += length
    field += fields
  }
  return block
}

/**
 * Records that were appended together: `lengths` are three numbers of each (key, value, headers; -1 is null), `bytes`
 * their parts.
 */
export interface PackedBatch {
  records: number
  timestamp: number
  lengths: Int32Array
  bytes: Uint8Array
}

/** Walks over a packed block: each call of `next` gives the parts of the next record, as views of the block. */
export interface BlockCursor {
  next(): {
    timestamp: number
    key: Buffer | null
    value: Buffer | null
    headers: Buffer | null
  }
  /** The next record as its readers get it; `offset` where the block does not know it. */
  record(partition: number, offset?: number): StoredRecord
  /**
   * The next records as they were packed: up to `recordsMax` (one or more), as long as they fit into `bytesMax`, but
   * always one.
   */
  batch(recordsMax: number, bytesMax: number): PackedBatch
  /** Passes over records without looking at them. */
  skip(count: number): void
  /** Another cursor at the same record. */
  fork(): BlockCursor
}

/** A cursor at the first of all the `records` of a block. */
export function createCursor(block: ArrayBuffer, records: number): BlockCursor {
  const numbers = new Float64Array(block, 0, records * fields)
  return cursorAt(numbers, Buffer.from(block), 0, records * fieldBytes)
}

function cursorAt(numbers: Float64Array, bytes: Buffer, firstField: number, firstByte: number): BlockCursor {
  let field = firstField
  let at = firstByte
  function take(length: number): Buffer | null {
    if (length < 0) return null
    at += length
    return bytes.subarray(at - length, at)
  }
  return {
    next() {
      const start = field
      field += fields
      return {
        timestamp: numbers[start + 1]!,
        key: take(numbers[start + 2]!),
        value: take(numbers[start + 3]!),
        headers: take(numbers[start + 4]! || -1),
      }
    },
    record(partition, offset = numbers[field]!) {
      const record = new BlockRecord(partition, offset, numbers, bytes, field, at)
      at += weightAt(numbers, field)
      field += fields
      return record
    },
    batch(recordsMax, bytesMax) {
      const [start, startByte] = [field, at]
      do {
        at += weightAt(numbers, field)
        field += fields
      } while (field - start < recordsMax * fields && at + weightAt(numbers, field) - startByte <= bytesMax)
      const records = (field - start) / fields
      const lengths = new Int32Array(records * partsOfRecord)
      for (let i = 0; i < lengths.length; i++) {
        lengths[i] = numbers[start + Math.floor(i / partsOfRecord) * fields + 2 + (i % partsOfRecord)]!
      }
      return { records, timestamp: numbers[start + 1]!, lengths, bytes: bytes.subarray(startByte, at) }
    },
    skip(count) {
      for (const end = field + count * fields; field < end; field += fields) at += weightAt(numbers, field)
    },
    fork: () => cursorAt(numbers, bytes, field, at),
  }
}

/** The next `count` records of one partition; with `first` given, offsets are counted up from it. */
export function takeRecords(
  cursor: BlockCursor,
  count: number,
  partition: number,
  first?: number,
): StoredRecord[] {
  const records: StoredRecord[] = new Array(count)
  for (let i = 0; i < count; i++) {
    records[i] = cursor.record(partition, first === undefined ? undefined : first + i)
  }
  return records
}

/** Offset of the last of `count` packed rows. */
export function lastOffset(block: ArrayBuffer, count: number): number {
  return new Float64Array(block, 0, count * fields)[(count - 1) * fields]!
}

/** What key, value and headers of the record whose numbers begin at `field` weigh together. */
function weightAt(numbers: Float64Array, field: number): number {
  return Math.max(numbers[field + 2]!, 0) + Math.max(numbers[field + 3]!, 0) + numbers[field + 4]!
}

/** A stored record as a view of the bytes that came from the file. Its parts are made only when they are asked for: most never are. */
class BlockRecord implements StoredRecord {
  readonly partition: number
  readonly offset: number
  readonly #numbers: Float64Array
  readonly #block: Buffer
  /** Where its numbers begin, and its bytes: key, value, headers. */
  readonly #field: number
  readonly #at: number
  #key: Buffer | null | undefined
  #value: Buffer | null | undefined
  #headers: Record<string, string> | undefined

  constructor(
    partition: number,
    offset: number,
    numbers: Float64Array,
    block: Buffer,
    field: number,
    at: number,
  ) {
    this.partition = partition
    this.offset = offset
    this.#numbers = numbers
    this.#block = block
    this.#field = field
    this.#at = at
  }

  get timestamp(): number {
    return this.#numbers[this.#field + 1]!
  }

  get bytes(): number {
    return weightAt(this.#numbers, this.#field)
  }

  get key(): Buffer | null {
    if (this.#key === undefined) this.#key = this.#part(this.#at, this.#numbers[this.#field + 2]!)
    return this.#key
  }

  get value(): Buffer | null {
    if (this.#value === undefined) {
      this.#value = this.#part(this.#at + this.#keyBytes, this.#numbers[this.#field + 3]!)
    }
    return this.#value
  }

  get headers(): Record<string, string> {
    this.#headers ??= this.#readHeaders()
    return this.#headers
  }

  /** Keeps nothing: of most records nothing else of the headers is ever asked for. */
  headerBytes(name: string): Buffer | undefined {
    const headers = this.#headers ?? this.#readHeaders()
    return Object.hasOwn(headers, name) ? Buffer.from(headers[name]!) : undefined
  }

  #readHeaders(): Record<string, string> {
    const text = this.#block.toString('utf8', this.#headersAt, this.#end)
    return text === '' ? {} : (JSON.parse(text) as Record<string, string>)
  }

  get #keyBytes(): number {
    return Math.max(this.#numbers[this.#field + 2]!, 0)
  }

  get #headersAt(): number {
    return this.#at + this.#keyBytes + Math.max(this.#numbers[this.#field + 3]!, 0)
  }

  get #end(): number {
    return this.#headersAt + this.#numbers[this.#field + 4]!
  }

  #part(at: number, length: number): Buffer | null {
    return length < 0 ? null : this.#block.subarray(at, at + length)
  }
}

/** The wall clock may move ahead by this much at once and is believed. */
const stepMsMax = 60_000
/**
 * The log's own time in whole milliseconds since 1970, for the times of records and for what expires. It follows the wall
 * clock, but never steps back, and a jump ahead counts only once it has lasted: a clock that is wrong for a while must not
 * expire records.
 */
export type Clock = () => number

interface ClockOptions {
  startAt: number
  /** A larger jump is believed when the wall clock has stayed there for this long. */
  believedAfterMs: number
  wall?(): number
  /** Milliseconds that pass whatever the wall clock says. */
  steady?(): number
}

export function createClock(options: ClockOptions): Clock {
  const { startAt, believedAfterMs, wall = Date.now, steady = () => performance.now() } = options
  let time = startAt
  let askedAt = steady()
  let jumpedAt: number | null = null
  return () => {
    const now = steady()
    const shown = wall()
    const own = time + (now - askedAt)
    askedAt = now
    jumpedAt = shown - own > stepMsMax ? (jumpedAt ?? now) : null
    const believed = jumpedAt === null || now - jumpedAt >= believedAfterMs
    time = believed ? Math.max(time, shown) : own
    return Math.floor(time)
  }
}
