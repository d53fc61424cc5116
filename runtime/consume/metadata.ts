/**
 * What a restart must know of a partition: the format of a commit's metadata, in at most 4,096 bytes of text, and what the
 * next owner takes up from it.
 */

import type { StoredRecord } from '#engines/event-log/port.ts'
import { headerNames } from '../publish/messages.ts'
import { type Bookkeeping as EventIdMemory, EventIdRing } from './event-ids.ts'
import { exactAttemptsMax, retryingLanesMax, ringIdsMax, windowOffsets } from './limits.ts'

/** What the records of a partition have come to. */
export interface Progress {
  /** The first offset that is not settled. */
  offset: number
  /** Settled offsets beyond it: bit i of byte b is offset `alignedDown(offset) + 8b + i`. */
  settled: Uint8Array
  /** Failed tries of records that are not settled. */
  attempts: Attempts[]
}

/** Failed tries of one record. */
export interface Tries {
  count: number
  /** What the handler keeps with them. */
  retriesUsed: number
}

export interface Attempts extends Tries {
  offset: number
}

/** What else a commit carries. */
export interface Bookkeeping {
  /** When the offset last rose, or was seen to be at the end of the log; ms since 1970. */
  progressedAtMs: number
  /** The owner has drained: no call of it is running. */
  released: boolean
  /** Takeovers from an owner that had not drained, at this very offset. */
  kills: number
  /** Records below this offset run isolated (0: none do). */
  isolatedUntil: number
  /** The record that is being run isolated. */
  isolated: number | null
  /** The member that wrote the commit: no other has had a call since. Random, 32 bits; 0 where nobody has. */
  owner: number
}

export interface SavedState extends Bookkeeping {
  settled: Set<number>
  /** By offset. */
  attempts: Map<number, Tries>
}

const prefix = 'f1.'
const fixedBytes = 34
/** While few lanes retry: 14 bits of distance, 18 of count, 8 of retries used. Else 14 of distance and 10 of count. */
const exactBytes = 5
const exactCountMax = 2 ** 18 - 1
const retriesUsedMax = 255
const roughBytes = 3
const roughCountMax = 1_023
const releasedFlag = 1
const exactFlag = 2
export const bitmapBytesMax = windowOffsets / 8 + 1

/** Bitmaps begin at a multiple of eight, so that they are copied and never shifted. */
export function alignedDown(offset: number): number {
  return offset - (offset % 8)
}

/** Attempts and settled offsets beyond the window are left out: they are repeated after a restart, never lost. */
export function encodeMetadata(progress: Progress, book: Bookkeeping): string {
  const attempts = progress.attempts
    .filter(({ offset }) => offset >= progress.offset && offset < progress.offset + windowOffsets)
    .slice(0, retryingLanesMax)
  const exact = attempts.length <= exactAttemptsMax
  const attemptBytes = exact ? exactBytes : roughBytes
  let bitmapBytes = Math.min(progress.settled.length, bitmapBytesMax)
  while (bitmapBytes > 0 && progress.settled[bitmapBytes - 1] === 0) bitmapBytes--
  const raw = Buffer.allocUnsafe(fixedBytes + attempts.length * attemptBytes + bitmapBytes)
  raw[0] = (book.released ? releasedFlag : 0) | (exact ? exactFlag : 0)
  raw[1] = Math.min(book.kills, 255)
  raw.writeDoubleBE(book.progressedAtMs, 2)
  raw.writeDoubleBE(book.isolatedUntil, 10)
  raw.writeDoubleBE(book.isolated ?? -1, 18)
  raw.writeUInt16BE(attempts.length, 26)
  raw.writeUInt16BE(bitmapBytes, 28)
  raw.writeUInt32BE(book.owner, 30)
  let at = fixedBytes
  for (const { offset, count, retriesUsed } of attempts) {
    const distance = offset - progress.offset
    const packed = exact
      ? (distance * 2 ** 18 + Math.min(count, exactCountMax)) * 256 + Math.min(retriesUsed, retriesUsedMax)
      : distance * 1_024 + Math.min(count, roughCountMax)
    at = raw.writeUIntBE(packed, at, attemptBytes)
  }
  raw.set(progress.settled.subarray(0, bitmapBytes), at)
  return prefix + raw.toString('base64')
}

/** The state that `encodeMetadata` wrote for a commit at `offset`; null when the text has another format. */
export function decodeMetadata(text: string, offset: number): SavedState | null {
  if (text === '') return emptyState()
  if (!text.startsWith(prefix)) return null
  const raw = Buffer.from(text.slice(prefix.length), 'base64')
  if (raw.length < fixedBytes) return null
  const exact = (raw[0]! & exactFlag) !== 0
  const attemptBytes = exact ? exactBytes : roughBytes
  const attemptCount = raw.readUInt16BE(26)
  const bitmapAt = fixedBytes + attemptCount * attemptBytes
  if (raw.length !== bitmapAt + raw.readUInt16BE(28)) return null
  const attempts = new Map<number, Tries>()
  for (let at = fixedBytes; at < bitmapAt; at += attemptBytes) {
    const packed = raw.readUIntBE(at, attemptBytes)
    const counted = exact ? Math.floor(packed / 256) : packed
    const countMax = exact ? 2 ** 18 : 1_024
    const count = counted % countMax
    const retriesUsed = exact ? packed % 256 : count
    attempts.set(offset + Math.floor(counted / countMax), { count, retriesUsed })
  }
  const isolated = raw.readDoubleBE(18)
  return {
    released: (raw[0]! & releasedFlag) !== 0,
    kills: raw[1]!,
    progressedAtMs: raw.readDoubleBE(2),
    isolatedUntil: raw.readDoubleBE(10),
    isolated: isolated < 0 ? null : isolated,
    owner: raw.readUInt32BE(30),
    attempts,
    settled: readBitmap(raw.subarray(bitmapAt), offset),
  }
}

/** The state of a position that no runtime has committed yet. */
export function emptyState(): SavedState {
  return {
    // Positions are first written by whoever makes the topic: nothing ran there.
    released: true,
    kills: 0,
    progressedAtMs: 0,
    isolatedUntil: 0,
    isolated: null,
    owner: 0,
    attempts: new Map(),
    settled: new Set(),
  }
}

/** Sets the bit of `settled` in a bitmap that begins at `alignedDown(offset)`; false when it lies outside. */
export function setBit(bitmap: Uint8Array, offset: number, settled: number): boolean {
  const at = settled - alignedDown(offset)
  if (at < 0 || at >= bitmap.length * 8) return false
  bitmap[at >>> 3]! |= 1 << (at & 7)
  return true
}

function readBitmap(bitmap: Uint8Array, offset: number): Set<number> {
  const base = alignedDown(offset)
  const settled = new Set<number>()
  for (let at = 0; at < bitmap.length; at++) {
    for (let bit = 0, byte = bitmap[at]!; byte !== 0; bit++, byte >>>= 1) {
      if (byte & 1) settled.add(base + at * 8 + bit)
    }
  }
  return settled
}

type RecordClass =
  | 'work'
  /** Read back for its event id alone: it lies below the position. */
  | 'below'
  /** Settled before a restart. */
  | 'settled'
  /** A second copy of an event. */
  | 'repeat'
  /** Nothing: the position moves over it. */
  | 'hidden'

const noTries: Tries = Object.freeze({ count: 0, retriesUsed: 0 })

/**
 * What an earlier owner of a partition left behind: records that it settled beyond its position, attempts that it
 * counted, and the ids of events. By it each arriving record is sorted: to be worked on, or not.
 */
export class ResumeState {
  /** Settled offsets from the last commit whose records have not come yet. */
  readonly settled: Set<number>
  /** Attempts, by offset, of records that have not come yet. */
  readonly #attempts: Map<number, Tries>
  readonly #position: number
  readonly #ring: EventIdRing | null
  readonly #onRepeat: () => void

  /** `memory` is what the event ids take theirs from; null: repeats are not dropped. */
  constructor(
    position: number,
    saved: SavedState,
    options: { memory: EventIdMemory | null; onRepeat(): void },
  ) {
    this.#position = position
    this.settled = saved.settled
    this.#attempts = saved.attempts
    this.#ring = options.memory === null ? null : new EventIdRing(ringIdsMax, options.memory)
    this.#onRepeat = options.onRepeat
  }

  /** The partition is gone. */
  close(): void {
    this.#ring?.close()
  }

  /** To be called once for each record, in the order of offsets. */
  classify(record: StoredRecord): RecordClass {
    if (record.hidden) return 'hidden'
    const id = this.#ring === null ? undefined : eventIdOf(record)
    const fresh = id === undefined || this.#ring!.add(id)
    if (record.offset < this.#position) return fresh ? 'below' : 'repeat'
    if (this.settled.size > 0) {
      if (this.settled.delete(record.offset)) return 'settled'
      if (record.offset >= this.#position + windowOffsets) this.settled.clear()
    }
    if (fresh) return 'work'
    this.#onRepeat()
    this.#attempts.delete(record.offset)
    return 'repeat'
  }

  /** Records with attempts that have not come yet. */
  get awaited(): number {
    return this.#attempts.size
  }

  /** Attempts of records that have not come yet: every commit has to keep them. */
  attempts(): Attempts[] {
    return [...this.#attempts].map(([offset, tries]) => ({ offset, ...tries }))
  }

  /** Attempts that a record had under earlier owners; asked once, when this owner begins to count them. */
  takeAttempts(offset: number): Tries {
    const tries = this.#attempts.size === 0 ? undefined : this.#attempts.get(offset)
    if (tries) this.#attempts.delete(offset)
    return tries ?? noTries
  }
}

function eventIdOf(record: StoredRecord): Uint8Array | undefined {
  if (record.headerBytes) return record.headerBytes(headerNames.eventId)
  const text = record.headers[headerNames.eventId]
  return text === undefined ? undefined : Buffer.from(text)
}
