/** Keeps which records of a partition are settled: the watermark, and a bitmap of what is settled beyond it. */

import { windowOffsets } from './limits.ts'
import { alignedDown, bitmapBytesMax } from './metadata.ts'

const ringBits = windowOffsets * 2
const ringBytes = ringBits / 8
const nothing = new Uint8Array(0)

/** Offsets are admitted in rising order and are settled in any order. Memory is fixed: 132 KB. */
export class Window {
  /** Offsets admitted and not yet passed by the watermark, a ring in rising order. */
  readonly #offsets = new Float64Array(windowOffsets)
  #head = 0
  #count = 0
  /** One bit for each offset modulo twice the window: settled. */
  readonly #bits = new Uint8Array(ringBytes)
  #next: number
  /** Admitted and not settled. */
  #open = 0
  /** Settled beyond the watermark. */
  #ahead = 0

  constructor(position: number) {
    this.#next = position
  }

  /** The first offset that is not settled. */
  get watermark(): number {
    return this.#count === 0 ? this.#next : this.#offsets[this.#head]!
  }

  /** Offsets from the watermark to the last one admitted. */
  get span(): number {
    return this.#next - this.watermark
  }

  /** Records below `end` that are not settled, as if none were missing from the log. */
  waiting(end: number): number {
    return Math.max(0, end - this.#next) + this.#open
  }

  /** Records admitted and not settled. */
  get open(): number {
    return this.#open
  }

  fits(offset: number): boolean {
    return offset < this.watermark + windowOffsets
  }

  /** Takes in the next offset; the caller asked `fits` before. */
  admit(offset: number): void {
    this.#offsets[(this.#head + this.#count) % windowOffsets] = offset
    this.#count++
    this.#open++
    this.#next = offset + 1
  }

  settle(offset: number): void {
    this.#open--
    this.#ahead++
    const at = offset % ringBits
    this.#bits[at >>> 3]! |= 1 << (at & 7)
    while (this.#count > 0) {
      const first = this.#offsets[this.#head]! % ringBits
      const mask = 1 << (first & 7)
      if ((this.#bits[first >>> 3]! & mask) === 0) return
      this.#bits[first >>> 3]! &= ~mask
      this.#head = (this.#head + 1) % windowOffsets
      this.#count--
      this.#ahead--
    }
  }

  /** The settled offsets beyond the watermark, as a commit's metadata wants them; empty when there are none, unless `whole`. */
  bitmap(whole = true): Uint8Array {
    if (this.#ahead === 0 && !whole) return nothing
    const bitmap = new Uint8Array(bitmapBytesMax)
    const from = (alignedDown(this.watermark) % ringBits) >>> 3
    const first = Math.min(bitmapBytesMax, ringBytes - from)
    bitmap.set(this.#bits.subarray(from, from + first))
    if (first < bitmapBytesMax) bitmap.set(this.#bits.subarray(0, bitmapBytesMax - first), first)
    return bitmap
  }
}
