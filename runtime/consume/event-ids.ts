/**
 * Remembers the last event ids of each partition, as 64-bit hashes, so that a second copy of an event is dropped; in one
 * budget for all groups of a process.
 */

import { randomInt } from 'node:crypto'
import { budgets } from '#lib/budgets.ts'
import { ringIdsMax, ringIdsMin, windowBytes } from './limits.ts'

/**
 * 16 bytes for each id, grown by doubling: 1,024 ids take 16 KB, 65,536 take 1 MB. Where the memory has no room, it forgets
 * its oldest ids in place of growing, and others that rest take theirs from it.
 */
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
  readonly #memory: Bookkeeping | undefined
  /** Ids to come before a ring that had no room to grow asks again. */
  #untilAsked = 0

  constructor(max = ringIdsMax, memory?: Bookkeeping) {
    this.#max = max
    const ids = Math.min(max, ringIdsMin)
    this.#a = new Uint32Array(ids)
    this.#b = new Uint32Array(ids)
    this.#slots = new Int32Array(slotsFor(ids))
    this.#mask = this.#slots.length - 1
    this.#memory = memory
    memory?.add(this)
  }

  get bytes(): number {
    return bytesOf(this.#a.length)
  }

  /** Forgets the older half; false when it has the least. */
  shrink(): boolean {
    if (this.#a.length <= ringIdsMin) return false
    this.#resize(Math.max(ringIdsMin, this.#a.length / 2))
    return true
  }

  /** Its memory is free for others. */
  close(): void {
    this.#memory?.remove(this)
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
    this.#memory?.used(this)
    if (this.#holds(low, high)) return false
    if (this.#count === this.#a.length && !this.#grow()) this.#forget(this.#next)
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

  #grow(): boolean {
    const ids = Math.min(this.#max, this.#a.length * 2)
    const more = bytesOf(ids) - this.bytes
    if (more === 0 || --this.#untilAsked > 0) return false
    if (this.#memory && !this.#memory.grow(this, more)) {
      this.#untilAsked = this.#a.length
      return false
    }
    this.#resize(ids)
    return true
  }

  /** Keeps the newest that fit, the oldest of them first. */
  #resize(ids: number): void {
    const [a, b, length] = [this.#a, this.#b, this.#a.length]
    const kept = Math.min(this.#count, ids)
    this.#a = new Uint32Array(ids)
    this.#b = new Uint32Array(ids)
    this.#slots = new Int32Array(slotsFor(ids))
    this.#mask = this.#slots.length - 1
    for (let index = 0; index < kept; index++) {
      const from = (this.#next - kept + index + length) % length
      this.#a[index] = a[from]!
      this.#b[index] = b[from]!
      this.#place(index)
    }
    this.#count = kept
    this.#next = kept % ids
  }

  /** Frees the slot of an id and moves displaced ids back, so that no search stops early. */
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

function bytesOf(ids: number): number {
  return ids * 8 + slotsFor(ids) * 4
}

/** Who needs room takes it from those that were used longest ago. */
export class Bookkeeping {
  readonly #bytesMax: number
  bytes = 0
  /** The one that was used longest ago is first. */
  readonly #parts = new Set<EventIdRing>()
  #newest: EventIdRing | undefined

  constructor(bytesMax: number = budgets.consumers.rememberedBytes) {
    this.#bytesMax = bytesMax
  }

  /** The least that a part remembers is never refused. */
  add(part: EventIdRing): void {
    this.#makeRoom(part, part.bytes)
    this.#parts.add(part)
    this.bytes += part.bytes
  }

  remove(part: EventIdRing): void {
    if (this.#parts.delete(part)) this.bytes -= part.bytes
    if (this.#newest === part) this.#newest = undefined
  }

  used(part: EventIdRing): void {
    if (this.#newest === part || !this.#parts.delete(part)) return
    this.#parts.add(part)
    this.#newest = part
  }

  /** True when the part may take so many bytes more: they count from then on. */
  grow(part: EventIdRing, bytes: number): boolean {
    if (!this.#makeRoom(part, bytes)) return false
    this.bytes += bytes
    return true
  }

  #makeRoom(asking: EventIdRing, bytes: number): boolean {
    for (const part of this.#parts) {
      if (this.bytes + bytes <= this.#bytesMax) return true
      if (part === asking) continue
      let before = part.bytes
      while (this.bytes + bytes > this.#bytesMax && part.shrink()) {
        this.bytes -= before - part.bytes
        before = part.bytes
      }
    }
    return this.bytes + bytes <= this.#bytesMax
  }
}

const ofProcess = new WeakMap<object, Bookkeeping>()

/** The budget of a process: that of its event log, which all of its groups read. */
export function bookkeepingOf(eventLog: object): Bookkeeping {
  const known = ofProcess.get(eventLog) ?? new Bookkeeping()
  ofProcess.set(eventLog, known)
  return known
}

/** Bytes of records that each partition may hold in memory: its part of what windows and remembered event ids leave. */
export function shareOf(partitions: number, rememberedBytes: number): number {
  const { groupBytes, partitionBytesMax, partitionBytesMin } = budgets.consumers
  const left = groupBytes - rememberedBytes - partitions * windowBytes
  return Math.max(partitionBytesMin, Math.min(partitionBytesMax, left / Math.max(1, partitions)))
}
