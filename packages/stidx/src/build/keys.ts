/** Numbers the keys of the tree, the same bytes always alike, and gives them in order at the end. */

import { termBytesMax } from '../format.ts'
import { grown } from './growing.ts'
import { orderOf } from './key-order.ts'

/** Given for a key that the tree cannot hold. */
export const noKey = -1

/** A slot: hash, number of the key and 1 (0 in a free slot). */
const slotSize = 2
const slotsMin = 1 << 14
/** Share of the slots that is used before there are more of them. */
const fillMax = 0.7
/** The most bytes that UTF-8 takes for one unit of UTF-16. */
const bytesPerUnitMax = 3

/** The bytes of all keys, one after the other, and a table of their hashes: no object for a key. */
export class KeyTable {
  count = 0
  #bytes = Buffer.allocUnsafe(1 << 16)
  #filled = 0
  /** Where each key begins, and behind the last one where the next will. */
  #starts = new Uint32Array(1 << 12)
  #slots = new Int32Array(slotsMin * slotSize)

  /** Adds a piece to the key that is being written. */
  put(text: string): void {
    this.#reserve(text.length * bytesPerUnitMax)
    const bytes = this.#bytes
    let at = this.#filled
    for (let i = 0; i < text.length; i++) {
      const code = text.charCodeAt(i)
      if (code > 0x7f) {
        this.#filled += bytes.write(text, this.#filled, 'utf8')
        return
      }
      bytes[at++] = code
    }
    this.#filled = at
  }

  /** Ends the key; `noKey` where it is empty or has more bytes than are allowed. */
  end(bytesMax = termBytesMax): number {
    const start = this.#starts[this.count]!
    const length = this.#filled - start
    if (length > 0 && length <= bytesMax) return this.#find(start, length)
    this.#filled = start
    return noKey
  }

  /** UTF-8 bytes as characters: in this form `<` compares as the bytes do. */
  textOf(number: number): string {
    return this.#bytes.toString('latin1', this.#starts[number]!, this.#starts[number + 1]!)
  }

  /** The numbers of all keys by rising bytes. */
  order(): Uint32Array {
    return orderOf(this.#bytes, this.#starts, this.count)
  }

  forget(): void {
    this.#slots.fill(0)
    this.count = 0
    this.#filled = 0
  }

  #find(start: number, length: number): number {
    const slots = this.#slots
    const mask = slots.length - 1
    const hash = this.#hashOf(start)
    let slot = placeOf(hash) & mask
    for (; slots[slot + 1] !== 0; slot = (slot + slotSize) & mask) {
      const number = slots[slot + 1]! - 1
      if (slots[slot] !== hash || !this.#isKey(number, start, length)) continue
      this.#filled = start
      return number
    }
    slots[slot] = hash
    slots[slot + 1] = ++this.count
    this.#starts = grown(this.#starts, this.count)
    this.#starts[this.count] = this.#filled
    if (this.count * slotSize > slots.length * fillMax) this.#growSlots()
    return this.count - 1
  }

  #hashOf(start: number): number {
    const bytes = this.#bytes
    let hash = 0
    for (let at = start; at < this.#filled; at++) hash = (Math.imul(hash, 0x01000193) ^ bytes[at]!) | 0
    return hash
  }

  #isKey(number: number, start: number, length: number): boolean {
    const other = this.#starts[number]!
    if (this.#starts[number + 1]! - other !== length) return false
    const bytes = this.#bytes
    for (let i = 0; i < length; i++) if (bytes[other + i] !== bytes[start + i]) return false
    return true
  }

  #growSlots(): void {
    const old = this.#slots
    const slots = new Int32Array(old.length * 2)
    const mask = slots.length - 1
    for (let from = 0; from < old.length; from += slotSize) {
      if (old[from + 1] === 0) continue
      let slot = placeOf(old[from]!) & mask
      while (slots[slot + 1] !== 0) slot = (slot + slotSize) & mask
      slots[slot] = old[from]!
      slots[slot + 1] = old[from + 1]!
    }
    this.#slots = slots
  }

  #reserve(count: number): void {
    if (this.#filled + count <= this.#bytes.length) return
    const larger = Buffer.allocUnsafe(Math.max(this.#bytes.length * 2, this.#filled + count))
    larger.set(this.#bytes.subarray(0, this.#filled))
    this.#bytes = larger
  }
}

function placeOf(hash: number): number {
  return (hash ^ (hash >>> 15)) * slotSize
}
