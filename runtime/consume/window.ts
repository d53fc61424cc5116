/** Keeps which records of a partition are settled: the watermark, and bitmaps of records admitted and settled beyond it. */

import { windowOffsets } from './limits.ts'
import { alignedDown, bitmapBytesMax } from './metadata.ts'

const ringBits = windowOffsets * 2
const ringBytes = ringBits / 8
const nothing = new Uint8Array(0)

/** Offsets are admitted in rising order and are settled in any order. Memory is fixed: 8 KB. */
export class Window {
  /** One bit for each offset modulo twice the window: admitted and not yet passed by the watermark. */
  readonly #admitted = new Uint8Array(ringBytes)
  /** The same: settled. */
  readonly #settled = new Uint8Array(ringBytes)
  /** The first offset admitted and not yet passed by the watermark, if `#count` is not 0. */
  #first = 0
  #count = 0
  #next: number
  /** Records admitted and not settled. */
  open = 0
  /** Settled beyond the watermark. */
  #ahead = 0

  constructor(position: number) {
    this.#next = position
  }

  /** The first offset that is not settled. */
  get watermark(): number {
    return this.#count === 0 ? this.#next : this.#first
  }

  /** Offsets from the watermark to the last one admitted. */
  get span(): number {
    return this.#next - this.watermark
  }

  /** Records below `end` that are not settled, as if none were missing from the log. */
  waiting(end: number): number {
    return Math.max(0, end - this.#next) + this.open
  }

  fits(offset: number): boolean {
    return offset < this.watermark + windowOffsets
  }

  /** Takes in the next offset; the caller asked `fits` before. */
  admit(offset: number): void {
    if (this.#count === 0) this.#first = offset
    set(this.#admitted, offset)
    this.#count++
    this.open++
    this.#next = offset + 1
  }

  settle(offset: number): void {
    this.open--
    this.#ahead++
    set(this.#settled, offset)
    while (this.#count > 0 && has(this.#settled, this.#first)) {
      clear(this.#settled, this.#first)
      clear(this.#admitted, this.#first)
      this.#count--
      this.#ahead--
      // Offsets that are missing from the log lie between those that were admitted.
      if (this.#count > 0)
        do this.#first++
        while (!has(this.#admitted, this.#first))
    }
  }

  /** The settled offsets beyond the watermark, as a commit's metadata wants them; empty when there are none, unless `whole`. */
  bitmap(whole = true): Uint8Array {
    if (this.#ahead === 0 && !whole) return nothing
    const bitmap = new Uint8Array(bitmapBytesMax)
    const from = (alignedDown(this.watermark) % ringBits) >>> 3
    const first = Math.min(bitmapBytesMax, ringBytes - from)
    bitmap.set(this.#settled.subarray(from, from + first))
    if (first < bitmapBytesMax) bitmap.set(this.#settled.subarray(0, bitmapBytesMax - first), first)
    return bitmap
  }
}

function has(bits: Uint8Array, offset: number): boolean {
  const at = offset % ringBits
  return (bits[at >>> 3]! & (1 << (at & 7))) !== 0
}

function set(bits: Uint8Array, offset: number): void {
  const at = offset % ringBits
  bits[at >>> 3]! |= 1 << (at & 7)
}

function clear(bits: Uint8Array, offset: number): void {
  const at = offset % ringBits
  bits[at >>> 3]! &= ~(1 << (at & 7))
}
