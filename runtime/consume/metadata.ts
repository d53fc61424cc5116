/** The format of a commit's metadata: what a restart must know of a partition, in at most 4,096 bytes of text. */

import { exactAttemptsMax, retryingLanesMax, windowOffsets } from './limits.ts'

/** What the records of a partition have come to. */
export interface Progress {
  /** The first offset that is not settled. */
  offset: number
  /** Settled offsets beyond it: bit i of byte b is offset `alignedDown(offset) + 8b + i`. */
  settled: Uint8Array
  /** Failed tries of records that are not settled. */
  attempts: Attempts[]
}

export interface Attempts {
  offset: number
  count: number
  /** What the handler keeps with them. */
  retriesUsed: number
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
  /** Failed tries by offset, and what the handler kept with them. */
  attempts: Map<number, number>
  retriesUsed: Map<number, number>
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
  const attempts = new Map<number, number>()
  const retriesUsed = new Map<number, number>()
  for (let at = fixedBytes; at < bitmapAt; at += attemptBytes) {
    const packed = raw.readUIntBE(at, attemptBytes)
    const counted = exact ? Math.floor(packed / 256) : packed
    const countMax = exact ? 2 ** 18 : 1_024
    const where = offset + Math.floor(counted / countMax)
    attempts.set(where, counted % countMax)
    if (exact) retriesUsed.set(where, packed % 256)
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
    retriesUsed,
    settled: readBitmap(raw.subarray(bitmapAt), offset),
  }
}

/** What is known of a position that no runtime has committed yet. */
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
    retriesUsed: new Map(),
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
