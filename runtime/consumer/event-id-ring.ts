/** Remembers the last 65,536 event ids of a partition, as 64-bit hashes, so that a second copy of an event is dropped. */

import { randomInt } from 'node:crypto'
import { ringIdsMax } from './limits.ts'

const idsAtFirst = 1_024

/** 16 bytes for each id, grown by doubling: an idle partition holds 16 KB, a full ring 1 MB. */
export class EventIdRing {
  readonly #max: number
  // Seeded freshly in every process, so that nobody can prepare an id that hides another's event.
  readonly #seedA = randomInt(2 ** 32)
  readonly #seedB = randomInt(2 ** 32)
  #a: Uint32Array
  #b: Uint32Array
  /** Open addressing over the ids: index + 1 of an id, 0 for free. Twice as many slots as ids. */
  #slots: Int32Array
  #mask: number
  #next = 0
  #count = 0

  constructor(max = ringIdsMax) {
    this.#max = max
    const ids = Math.min(max, idsAtFirst)
    this.#a = new Uint32Array(ids)
    this.#b = new Uint32Array(ids)
    this.#slots = new Int32Array(slotsFor(ids))
    this.#mask = this.#slots.length - 1
  }

  /** Remembers an id; false when it is known already. The oldest one is forgotten when the ring is full. */
  add(id: Uint8Array): boolean {
    let a = this.#seedA | 0
    let b = this.#seedB | 0
    for (let i = 0; i < id.length; i++) {
      const code = id[i]!
      a = Math.imul(a ^ code, 0x9e3779b1)
      b = Math.imul(b ^ code, 0x5f356495)
    }
    const low = (Math.imul(a ^ (a >>> 16), 0x85ebca6b) ^ Math.imul(b ^ (b >>> 13), 0xc2b2ae35)) >>> 0
    const high = (Math.imul(b ^ (b >>> 16), 0x85ebca6b) ^ Math.imul(a ^ (a >>> 13), 0xc2b2ae35)) >>> 0
    if (this.#holds(low, high)) return false
    if (this.#count === this.#a.length) {
      if (this.#count < this.#max) this.#grow()
      else this.#forget(this.#next)
    }
    const index = this.#next
    this.#a[index] = low
    this.#b[index] = high
    this.#place(index)
    this.#next = (index + 1) % this.#a.length
    if (this.#count < this.#a.length) this.#count++
    return true
  }

  #holds(low: number, high: number): boolean {
    for (let slot = low & this.#mask; this.#slots[slot] !== 0; slot = (slot + 1) & this.#mask) {
      const index = this.#slots[slot]! - 1
      if (this.#a[index] === low && this.#b[index] === high) return true
    }
    return false
  }

  #place(index: number): void {
    let slot = this.#a[index]! & this.#mask
    while (this.#slots[slot] !== 0) slot = (slot + 1) & this.#mask
    this.#slots[slot] = index + 1
  }

  #grow(): void {
    const ids = Math.min(this.#max, this.#a.length * 2)
    const a = new Uint32Array(ids)
    const b = new Uint32Array(ids)
    a.set(this.#a)
    b.set(this.#b)
    this.#next = this.#a.length
    this.#a = a
    this.#b = b
    this.#slots = new Int32Array(slotsFor(ids))
    this.#mask = this.#slots.length - 1
    for (let index = 0; index < this.#count; index++) this.#place(index)
  }

  /** Frees the slot of an id and moves back what had to move on because of it, so that no search stops early. */
  #forget(index: number): void {
    let free = this.#a[index]! & this.#mask
    while (this.#slots[free] !== index + 1) free = (free + 1) & this.#mask
    this.#slots[free] = 0
    for (let slot = (free + 1) & this.#mask; this.#slots[slot] !== 0; slot = (slot + 1) & this.#mask) {
      const home = this.#a[this.#slots[slot]! - 1]! & this.#mask
      const distance = (slot - home) & this.#mask
      if (distance < ((slot - free) & this.#mask)) continue
      this.#slots[free] = this.#slots[slot]!
      this.#slots[slot] = 0
      free = slot
    }
  }
}

function slotsFor(ids: number): number {
  return 2 ** Math.ceil(Math.log2(ids * 2))
}
