/** The memory of remembered event ids: one budget for all groups of a process, and what each group takes of it. */

import { bookkeepingBytesMax, heldBytesMax, partitionBytesMax, partitionBytesMin } from './limits.ts'
import { windowBytes } from './window.ts'

/** Something that can forget the older half of what it remembers. */
export interface Shrinkable {
  readonly bytes: number
  /** False when it remembers the least that it may. */
  shrink(): boolean
}

/** Who needs room takes it from those that were used longest ago. */
export class Bookkeeping {
  readonly #bytesMax: number
  #bytes = 0
  /** The one that was used longest ago is first. */
  readonly #parts = new Set<Shrinkable>()
  #newest: Shrinkable | undefined

  constructor(bytesMax = bookkeepingBytesMax) {
    this.#bytesMax = bytesMax
  }

  get bytes(): number {
    return this.#bytes
  }

  /** The least that a part remembers is never refused. */
  add(part: Shrinkable): void {
    this.#makeRoom(part, part.bytes)
    this.#parts.add(part)
    this.#bytes += part.bytes
  }

  remove(part: Shrinkable): void {
    if (this.#parts.delete(part)) this.#bytes -= part.bytes
    if (this.#newest === part) this.#newest = undefined
  }

  used(part: Shrinkable): void {
    if (this.#newest === part || !this.#parts.delete(part)) return
    this.#parts.add(part)
    this.#newest = part
  }

  /** True when the part may take so many bytes more: they count from then on. */
  grow(part: Shrinkable, bytes: number): boolean {
    if (!this.#makeRoom(part, bytes)) return false
    this.#bytes += bytes
    return true
  }

  #makeRoom(asking: Shrinkable, bytes: number): boolean {
    for (const part of this.#parts) {
      if (this.#bytes + bytes <= this.#bytesMax) return true
      if (part === asking) continue
      let before = part.bytes
      while (this.#bytes + bytes > this.#bytesMax && part.shrink()) {
        this.#bytes -= before - part.bytes
        before = part.bytes
      }
    }
    return this.#bytes + bytes <= this.#bytesMax
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
  const left = heldBytesMax - rememberedBytes - partitions * windowBytes
  return Math.max(partitionBytesMin, Math.min(partitionBytesMax, left / Math.max(1, partitions)))
}
